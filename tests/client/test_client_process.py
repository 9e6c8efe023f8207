"""`trilens.client` against a server as people run it: runs, steps, series, and what goes wrong."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import matplotlib as mpl
import pandas as pd
import pyarrow as pa
import pytest

from run_lines import Sender
from trilens.client import Client
from trilens.model.errors import ConfigError, NotFound, RequestError, ServerError
from trilens_process import clean_environment, server

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "a-token-of-the-tests"
T0 = int(time.time()) // 60 * 60 - 3_600
RANKS, STEPS = 2, 30


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    here = tmp_path_factory.mktemp("client")
    (here / "trilens.yaml").write_text(f"server: {{token: {TOKEN}}}\n")
    with server(here, "--config", str(here / "trilens.yaml")) as (address, _):
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            tell(http)
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url, token=TOKEN) as one:
        yield one


def tell(http: httpx.Client) -> None:
    """Two ranks of one run, the first of which saves a checkpoint; and samples of two GPUs."""
    for rank in range(RANKS):
        sender = Sender(rank=rank, run="lr-1.abc")
        checkpoint = {"n": 0, "step": STEPS - 1, "path": "/c/1", "start_ms": 20_000, "us": 5, "bytes": 9}
        saved = {"checkpoints": [checkpoint]} if rank == 0 else {}
        body = sender.first(STEPS) + sender.batch(**saved)
        if rank == 0:  # a loss that is not finite, and a value that only one step has
            last = {
                "n": [STEPS],
                "step": [STEPS],
                "start_us": [1_790_000_000_123_456],
                "us": [250_000],
                "samples": [None],
                "phases": {"backward": [50_000]},
                "values": {"loss": ["NaN"], "bleu": [0.5]},
            }
            body += sender._line(sender.seq, {"steps": last})
        assert http.post("/api/v1/runs/records", content=body).status_code == 200
    text = "".join(
        f'power{{gpu="{gpu}",node="n"}} {100 * gpu + i} {T0 + 15 * i}\n' for gpu in (0, 1) for i in range(5)
    )
    text = f"# TYPE power gauge\n{text}# EOF\n"
    assert http.post("/api/v1/import/openmetrics", content=text).status_code == 200


def test_runs_are_rows_with_types(client: Client) -> None:
    runs = client.runs()
    assert [*runs["run"]] == ["lr-1.abc"]
    row = runs.iloc[0]
    assert (row["experiment"], row["name"], row["ranks"]) == ("lr", "first", 2)
    assert row["total_steps"] is pd.NA
    assert str(runs["created"].dtype) == "datetime64[ms, UTC]"
    assert abs(row["created"].timestamp() - time.time()) < 3600
    assert [*client.runs(experiment="nobody").columns] == [*runs.columns]


def test_steps_come_over_several_pages_and_are_whole(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    get = client._connection.get

    def in_small_pages(path: str, params: dict[str, str] | None = None) -> object:
        asked.append(path)
        return get(path, {**params, "limit": "20"} if params and "limit" in params else params)

    monkeypatch.setattr(client._connection, "get", in_small_pages)
    steps = client.steps("first")
    assert len([path for path in asked if path.endswith("/steps")]) == 4
    assert len(steps) == RANKS * STEPS + 1
    assert not steps.duplicated(["step", "rank"]).any()
    assert (steps["phase.forward_s"].dropna() == 0.1).all()
    assert (steps["samples_per_second"].dropna() == 2.5).all()


def test_what_a_step_did_not_tell_is_missing_and_not_zero(client: Client) -> None:
    last = client.steps("lr/first", first=STEPS).iloc[0]
    assert last["samples"] is pd.NA
    assert math.isnan(last["samples_per_second"])
    assert last["time"] == pd.Timestamp("2026-09-21T14:13:20.123456Z")
    assert (last["bleu"], last["phase.backward_s"]) == (0.5, 0.05)
    arrow = client.steps("first", first=STEPS - 1, rank=0, as_arrow=True)
    assert isinstance(arrow, pa.Table)
    assert arrow["bleu"].to_pylist() == [None, 0.5]
    assert arrow["loss"].null_count == 0  # reported as NaN, which is not "nobody told"
    assert math.isnan(arrow["loss"][1].as_py())


def test_the_curve_is_over_all_ranks(client: Client) -> None:
    curve = client.curve("first")
    assert len(curve) == STEPS + 1
    assert curve["mean"].iloc[1] == 0.5
    assert curve.attrs["value"] == "loss"


def test_what_went_into_a_checkpoint(client: Client) -> None:
    assert [*client.checkpoints("first")["step"]] == [STEPS - 1]
    lineage = client.lineage("first", STEPS - 1)
    assert [*lineage.datasets["dataset"]] == ["d"]
    assert lineage.datasets["samples"].sum() == len(client.batches("first", STEPS - 1)) == RANKS * STEPS
    assert "checkpoint of step 29" in lineage.text
    assert "<table" in lineage._repr_html_()


def test_queries_are_long_and_ranges_wide(client: Client) -> None:
    now = client.query("power", at=T0 + 30)
    assert [*now.columns] == ["__name__", "gpu", "node", "time", "value"]
    assert [*now["value"]] == [2, 102]
    assert client.query("1 + 1")["value"].item() == 2
    wide = client.query_range("power", T0, T0 + 60, "15s")
    assert [*wide.columns] == ["0", "1"]
    assert [*wide["1"]] == [100, 101, 102, 103, 104]
    assert wide.index[0] == pd.Timestamp(T0, unit="s", tz="UTC")
    assert wide.attrs["series"]["1"] == {"__name__": "power", "gpu": "1", "node": "n"}
    assert client.query_range("power", T0, T0 + 60, 15, as_arrow=True).num_rows == 5
    assert client.query_range("nothing", T0, T0 + 60, 15).empty


def test_a_range_of_more_points_than_one_answer_may_have(client: Client) -> None:
    points = 11_500
    wide = client.query_range("vector(1)", T0, T0 + points - 1, 1)
    assert len(wide) == points
    assert wide.index.is_unique


def test_empty_answers_have_their_columns(client: Client) -> None:
    nowhere = {"node": "nobody"}
    found = (client.findings(**nowhere), client.incidents(last="12h", **nowhere))
    for rows in (client.workloads(), client.gpus(), *found):
        assert rows.empty
        assert len(rows.columns) > 10
    assert str(found[1]["lost"].dtype) == "float64"
    assert client.cost(["team", "day"], last="12h").empty
    assert client.cost_why(last="12h").attrs["currency"] is None
    assert client.events().empty


def test_plots_are_drawn(client: Client) -> None:
    mpl.use("agg")
    ax = client.plot_loss("first")
    assert len(ax.lines) == 1
    assert ax.get_ylabel() == "loss"
    assert client.plot_loss("first", over="time").get_xlabel() == "time (UTC)"


def test_errors_say_what_and_what_next(client: Client, url: str) -> None:
    def said(error: type[Exception], ask: object) -> str:
        with pytest.raises(error) as caught:
            ask()  # type: ignore[operator]
        return str(caught.value)

    assert "no run 'nobody' is known (runs() lists them)" in said(NotFound, lambda: client.steps("nobody"))
    assert "told of no value 'x'" in said(NotFound, lambda: client.curve("first", "x"))
    assert "parse error" in said(RequestError, lambda: client.query("sum("))
    assert "did you mean 'namespace'?" in said(RequestError, lambda: client.workloads(namspace="x"))
    assert "cannot read the time 'noon'" in said(RequestError, lambda: client.query("up", at="noon"))
    assert "give one of them" in said(RequestError, lambda: client.cost(last="1h", start="-2h"))
    assert "no workload 'nobody' is known" in said(NotFound, lambda: client.plot_ranks("nobody"))
    assert 'token="..."' in said(ServerError, Client(url, token="wrong").workloads)
    assert "start one with: trilens up" in said(ServerError, Client("http://127.0.0.1:1").gpus)
    assert "is not an http:// or https:// URL" in said(ConfigError, lambda: Client("localhost"))


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {gone!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Missing())
from trilens.client import Client
from trilens.model.errors import ConfigError
for ask in (lambda c: c.query('power', at={at}), lambda c: c.plot_loss('first')):
    try:
        print('answered', len(ask(Client({url!r}, token={token!r}))))
    except ConfigError as error:
        print(error)
heavy = {{'pandas', 'matplotlib', 'numpy', 'pyarrow', 'trilens.serve', 'trilens.store'}}
print(*sorted(heavy & set(sys.modules)))
"""


def test_the_base_install_says_what_is_missing_and_loads_nothing(url: str) -> None:
    gone = ("pandas", "matplotlib", "pyarrow", "numpy")
    program = WITHOUT.format(gone=gone, url=url, token=TOKEN, at=T0 + 30)
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=True)
    first, second, loaded = said.stdout.splitlines()
    assert re.search(r"tables need the package 'pandas'.*pip install 'trilens\[notebook\]'", first)
    assert "trilens[notebook]" in second
    assert loaded == ""
