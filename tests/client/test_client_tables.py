"""Tables of `trilens.client`: what the API's schema promises, the night's money, and what notebooks show."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pandas as pd
import pytest

from http_target import Answer, HttpTarget
from ledger_nights import NIGHT_MS, a_night
from memory_api import Api, running
from memory_book import MemoryBook
from memory_runs import MemoryRuns
from run_records import facts, process, step
from trilens.client import Client, plots
from trilens.client.frames import frame
from trilens.client.money import CAUSES, experiments_table
from trilens.client.series import long_table, series_names, wide_table
from trilens.client.shapes import (
    BATCHES,
    CHECKPOINTS,
    EVENTS,
    FINDINGS,
    GPUS,
    INCIDENTS,
    PARTS,
    REPEATED,
    RUNS,
    SHARES,
    WORKLOADS,
)
from trilens.client.steps import steps_table
from trilens.client.table import Kind, table_of
from trilens.client.why import why_of
from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS
from trilens.serve.openapi import document

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
SPAN = {"start": "2026-11-04T00:00:00Z", "end": "2026-11-04T06:00:00Z"}
SHAPES = {
    "WorkloadAnswer": WORKLOADS,
    "GpuAnswer": GPUS,
    "RunAnswer": RUNS,
    "EventAnswer": EVENTS,
    "FindingAnswer": FINDINGS,
    "IncidentAnswer": INCIDENTS,
    "CheckpointAnswer": CHECKPOINTS,
    "PartAnswer": PARTS,
    "ShareAnswer": SHARES,
    "RepeatedAnswer": REPEATED,
    "BatchAnswer": BATCHES,
    "CauseAnswer": CAUSES,
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    mpl.use("agg")
    steps = [
        step(n, rank, values={"loss": 3.0 - n / 10}, phases={"forward": 100_000})
        for n in range(20)
        for rank in range(2)
    ]
    runs = MemoryRuns(
        [facts(name="first", experiment="lr", created_ms=NIGHT_MS)], [process(0), process(1)], steps
    )
    api = Api(book=MemoryBook(*a_night()), runs=runs, now_ms=lambda: NIGHT_MS + 6 * HOUR_MS - 1)
    with running(api.build()) as url, Client(url) as one:
        yield one


def example(schema: dict[str, Any], types: dict[str, Any], *, full: bool) -> Any:
    """What fits a schema: with everything in it, or with all null and empty that may be."""
    if "$ref" in schema:
        return example(types[schema["$ref"].rpartition("/")[2]], types, full=full)
    if "anyOf" in schema:
        ways = sorted(schema["anyOf"], key=lambda one: (one.get("type") == "null") == full)
        return example(ways[0], types, full=full)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        fields = {name: example(one, types, full=full) for name, one in schema.get("properties", {}).items()}
        values = schema.get("additionalProperties")
        return (
            {**fields, "x": example(values, types, full=full)}
            if isinstance(values, dict) and full
            else fields
        )
    if kind == "array":
        inside = schema.get("prefixItems") or ([schema["items"]] if full and schema.get("items") else [])
        return [example(one, types, full=full) for one in inside]
    return {"string": "1.5", "integer": 7, "number": 0.5, "boolean": True}.get(str(kind))


@pytest.mark.parametrize("full", [True, False], ids=["full", "null"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_column_is_in_what_the_api_promises(name: str, full: bool) -> None:
    types = document()["components"]["schemas"]
    table = table_of(SHAPES[name], [example(types[name], types, full=full)])
    rows = frame(table, as_arrow=False)
    arrow = frame(table, as_arrow=True)
    assert [*rows.columns] == arrow.column_names == [column.name for column in SHAPES[name]]
    for column in SHAPES[name]:
        value = arrow[column.name][0].as_py()
        assert value is not None or not full
        if column.kind in (Kind.TIME_MS, Kind.TIME_US) and full:
            assert rows[column.name].iloc[0].tzinfo is not None


def test_what_was_spent_with_its_currency(client: Client) -> None:
    cost = client.cost(["team", "bucket"], **SPAN)
    assert cost.attrs["currency"] == "USD"
    spent = cost.set_index(["team", "bucket"])["amount"]
    assert spent["vision", "stalled"] == 1228.8
    assert spent.sum() == pytest.approx(1952)
    assert any("no price for NVIDIA L4" in one for one in cost.attrs["warnings"])


def test_what_has_no_price_is_missing_and_not_zero(client: Client) -> None:
    cost = client.cost("team", **SPAN)
    unpriced = cost[cost["unpriced_gpu_hours"] > 0].iloc[0]
    assert math.isnan(unpriced["amount"])
    assert (unpriced["gpu_hours"], unpriced["unpriced_gpu_hours"]) == (12, 12)
    arrow = client.cost("team", as_arrow=True, **SPAN)
    assert arrow["amount"].null_count == 1
    assert json.loads(arrow.schema.metadata[b"currency"]) == "USD"


def test_dimensions_have_their_types(client: Client) -> None:
    cost = client.cost(["hour", "workload"], where={"team": "vision"}, **SPAN)
    assert cost["hour"].min() == pd.Timestamp("2026-11-04T00:00:00Z")
    assert set(cost["workload"]) == {"east/ml/PyTorchJob/vision-finetune-1"}


def test_causes_are_sentences(client: Client) -> None:
    why = client.cost_why(**SPAN)
    assert why.iloc[0]["sentence"].startswith("vision-finetune-1 (team vision): stalled at step 8,320")
    assert why.attrs["totals"][0]["currency"] == "USD"


def test_the_cost_is_drawn_in_one_currency(client: Client) -> None:
    ax = client.plot_cost(["team", "bucket"], **SPAN)
    assert ax.get_xlabel() == "USD"
    assert "12.0 GPU-hours have no price" in ax.get_title()
    assert [text.get_text() for text in ax.get_yticklabels()][-1] == "vision"
    with pytest.raises(RequestError, match="one or two dimensions"):
        client.plot_cost(["team", "bucket", "node"], **SPAN)


def test_a_straggler_stands_out() -> None:
    mpl.use("agg")
    page = {
        "step": [0, 0, 1, 1],
        "rank": [0, 1, 0, 1],
        "attempt": [0] * 4,
        "n": [0, 0, 1, 1],
        "start_us": [0] * 4,
        "duration_us": [900_000] * 4,
        **{name: [None] * 4 for name in ("samples", "tokens", "epoch")},
        **{name: {} for name in ("device_phases_us", "values")},
        "phases_us": {"grad_sync": [800_000, None, 800_000, None]},
    }
    ax = plots.ranks(frame(steps_table([page], ()), as_arrow=False), "ml/llm")
    assert ax.collections[0].get_array().reshape(2, 2).round(9).tolist() == [[0.1, 0.1], [0.9, 0.9]]
    assert plots.fewer_steps(200, 4_096) == 24
    assert plots.fewer_steps(200, 8) == 200


def test_series_are_named_by_what_differs() -> None:
    assert series_names([{"__name__": "up"}]) == ["up"]
    assert series_names([{"__name__": "time"}]) == ["value"]
    assert series_names([{"team": "a", "x": "1"}, {"team": "b", "x": "1"}]) == ["a", "b"]
    assert series_names([{"a": "1", "b": "2"}, {"a": "2", "b": "1"}]) == ["a=1, b=2", "a=2, b=1"]
    assert series_names([{"team": "a"}, {}]) == ["a", "(none)"]
    assert series_names([{"a": "time"}, {"a": "b"}]) == ["a=time", "a=b"]


def test_a_label_called_as_a_column_is_beside_it() -> None:
    labels = {"team": "a", "time": "noon", "value": "high", "label.time": "late"}
    data = {"resultType": "vector", "result": [{"metric": labels, "value": [15, "2"]}]}
    row = frame(long_table(data, ()), as_arrow=False).iloc[0]
    assert (row["team"], row["time"].timestamp(), row["value"]) == ("a", 15, 2)
    assert (row["label.label.time"], row["label.time"], row["label.value"]) == ("noon", "late", "high")


def test_what_is_doubtful_of_steps_and_curves_is_told() -> None:
    columns = ("step", "rank", "attempt", "n", "start_us", "duration_us", "samples", "tokens", "epoch")
    groups = ("phases_us", "device_phases_us", "values")
    page = {**{name: [] for name in columns}, **{name: {} for name in groups}}
    course = {name: [] for name in ("step", "attempt", "t_ms", "mean", "worst", "worst_rank")}

    def told(data: Any, *warnings: str) -> bytes:
        return json.dumps({"status": "success", "data": data, "warnings": warnings}).encode()

    silent = "rank 3 is silent"
    pages = iter([told({**page, "next": "x"}, silent), told({**page, "next": None}, silent, "it is old")])
    with HttpTarget() as server, Client(f"http://{server.address}") as asking:
        server.say(told({"runs": [{"run": "r", "name": "r", "experiment": "x"}]}), "/api/runs")
        server.answers["/api/runs/r/steps"] = Answer(lambda: next(pages))
        server.say(told({**course, "run": "r", "value": "loss"}, "it is old"), "/api/runs/r/curve")
        assert asking.steps("r").attrs["warnings"] == [silent, "it is old"]
        assert asking.curve("r").attrs["warnings"] == ["it is old"]


def test_where_a_series_has_no_sample_nothing_is_known() -> None:
    result = [{"metric": {"a": "1"}, "values": [[0, "1"]]}, {"metric": {"a": "2"}, "values": [[15, "NaN"]]}]
    arrow = frame(wide_table([result], ()), as_arrow=True)
    assert arrow["1"].to_pylist() == [1.0, None]
    assert arrow["2"][0].as_py() is None
    assert math.isnan(arrow["2"][1].as_py())
    histogram = wide_table([[{"metric": {}, "histograms": [[0, {}]]}]], ())
    assert "native histograms are left out" in histogram.warnings[0]


def test_experiments_have_a_column_for_each_parameter() -> None:
    types = document()["components"]["schemas"]
    one = example(types["ExperimentAnswer"], types, full=False)
    run = {**example(types["ExperimentRunAnswer"], types, full=False), "params": {"lr": "3e-4"}}
    bare = {**run, "params": {}, "metrics": {"loss": "NaN"}}
    rows = frame(experiments_table([{**one, "runs": [run, bare]}], ()), as_arrow=False)
    assert rows["param.lr"].isna().tolist() == [False, True]
    assert rows["amount"].isna().all()


def test_a_verdict_is_shown_and_no_name_is_markup() -> None:
    types = document()["components"]["schemas"]
    answer = example(types["VerdictsAnswer"], types, full=True)
    answer["subject"]["name"] = "<script>alert(1)</script>"
    answer["verdicts"][0].update(text="<b>bad</b>", cause="nccl-hang", fix=["<i>reboot</i>"], can_tell=True)
    why = why_of(answer, ["one cluster is silent"])
    shown = why._repr_html_()
    assert "<script>" not in shown
    assert "<i>reboot" not in shown
    assert "&lt;b&gt;bad" in shown
    assert why.cause == "nccl-hang"
    assert "do: <i>reboot</i>" in why.text
    assert "one cluster is silent" in str(why)
    answer["verdicts"][0]["can_tell"] = False
    assert why_of(answer, ()).cause is None


def test_the_notebook_runs(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person runs it, at the end of that night."""
    monkeypatch.setenv("TRILENS_SERVER", client._connection.url)
    night_s = NIGHT_MS / 1000 + 6 * 3600 - 1
    monkeypatch.setattr("trilens.client.client.time", SimpleNamespace(time=lambda: night_s))
    names: dict[str, Any] = {}
    cells = [one for one in json.loads(NOTEBOOK.read_text())["cells"] if one["cell_type"] == "code"]
    for cell in cells:
        assert cell["outputs"] == []
        exec("".join(cell["source"]), names)
    assert names["wasted"]["amount"].max() == 1228.8
    assert len(names["steps"]) == 40
