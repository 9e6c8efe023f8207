"""/api/runs, /api/samples and what lies below them, over HTTP."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from memory_runs import MemoryRuns
from simulated_job import Job
from trilens.model.run import ArtifactRecord, RankProcess, RunId, ValidationRecord, WriterId
from trilens.serve.openapi import document
from trilens.serve.run_workloads import workloads_of
from workload_records import TRAIN, minute, some_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.store.workloads import WorkloadRecords

    Ask = Callable[..., httpx.Response]


def five_runs() -> MemoryRuns:
    """The last of them in a pod, with losses that are not finite."""
    source = MemoryRuns()
    for number in range(5):
        job = Job(source=source, run=RunId(f"run-{number}"), now_ms=minute(number))
        job.start(2)
        job.train(12)
        job.save()
        job.train(2)
    source.told_steps[:] = [
        replace(one, values={"loss": math.nan if one.step == 14 else 2.0}) if one.run == "run-4" else one
        for one in source.told_steps
    ]
    source.told_processes[:] = [
        replace(one, namespace="ml", pod="train-0", pod_uid="uid-train-0-0") if one.run == "run-4" else one
        for one in source.told_processes
    ]
    source.facts[-1] = replace(source.facts[-1], total_steps=28, config={"lr": 3e-4})
    source.told_validations.append(
        ValidationRecord(job.run, 12, 0, 0, 0, job.now_ms, 1_500_000, {"loss": math.inf})
    )
    source.told_artifacts.append(
        ArtifactRecord(job.run, 1, 0, 2, job.now_ms, "stacks", 'a"b\n.txt', b"<script>")
    )
    return source


@pytest.fixture(scope="module")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkloadRecords]:
    with some_records(tmp_path_factory.mktemp("workloads")) as records:
        yield records


@pytest.fixture(scope="module")
def ask(workloads: WorkloadRecords) -> Iterator[Ask]:
    with running(Api(runs=five_runs(), workloads=workloads).build()) as url:
        yield lambda path, **params: httpx.get(f"{url}{path}", params=params)


def names(answer: httpx.Response) -> list[str]:
    return [one["run"] for one in answer.json()["data"]["runs"]]


def test_pages_of_runs(ask: Ask) -> None:
    first = ask("/api/runs", limit=2)
    assert names(first) == ["run-4", "run-3"]
    second = ask("/api/runs", limit=2, next=first.json()["data"]["next"])
    assert names(second) == ["run-2", "run-1"]
    third = ask("/api/runs", limit=2, next=second.json()["data"]["next"])
    assert (names(third), third.json()["data"]["next"]) == (["run-0"], None)


def test_filters(ask: Ask) -> None:
    assert names(ask("/api/runs", experiment="none")) == []
    assert names(ask("/api/runs", **{"from": str(minute(4) / 1000)})) == ["run-4"]
    assert names(ask("/api/runs", state="stalled", limit=1)) == ["run-4"]
    assert names(ask("/api/runs", state="finished")) == []
    assert names(ask("/api/runs", named="name-run-3")) == ["run-3"]
    assert names(ask("/api/runs", workload="lab/ml/PyTorchJob/train")) == ["run-4"]
    assert names(ask("/api/runs", workload="lab/ml/PyTorchJob/other")) == []


def test_a_run_with_its_workload_and_progress(ask: Ask) -> None:
    whole = ask("/api/runs/run-4").json()["data"]
    run = whole["run"]
    assert run["workloads"] == [TRAIN._asdict()]
    assert (run["step"], run["total_steps"], run["progress"]) == (14, 28, 0.5)
    assert (run["state"], run["time_left"]) == ("stalled", None)
    assert (run["loss"], whole["config"]) == ("NaN", {"lr": 3e-4})
    assert run["samples_per_second"] == pytest.approx(8.0, rel=0.2)
    assert whole["validations"][0]["values"] == {"loss": "Infinity"}
    assert [(one["rank"], one["is_last"], one["gpus"]) for one in whole["ranks"]] == [
        (0, True, ["GPU-0"]),
        (1, True, ["GPU-1"]),
    ]
    assert ask("/api/runs/run-3").json()["data"]["run"]["workloads"] == []


def test_an_artifact_is_sent_as_it_is_and_never_shown(ask: Ask) -> None:
    (one,) = ask("/api/runs/run-4").json()["data"]["artifacts"]
    answer = ask(f"/api/runs/run-4/artifacts/{one['artifact']}")
    assert answer.content == b"<script>"
    assert answer.headers["content-disposition"] == 'attachment; filename="a_b_.txt"'
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_step_page_by_page(ask: Ask) -> None:
    first = ask("/api/runs/run-1/steps/3", limit=1).json()["data"]
    assert ([one["rank"] for one in first["ranks"]], first["next"]) == ([0], "1")
    second = ask("/api/runs/run-1/steps/3", limit=1, next=first["next"]).json()["data"]
    assert ([one["rank"] for one in second["ranks"]], second["next"]) == ([1], None)
    assert second["ranks"][0]["batches"][0]["range"] == [20, 4, 1]


def test_the_batches_of_a_checkpoint_page_by_page(ask: Ask) -> None:
    found, more = [], ""
    pages = 0
    while more is not None:
        page = ask("/api/runs/run-1/checkpoints/12/batches", limit=5, next=more).json()["data"]
        found += [(one["step"], one["rank"]) for one in page["batches"]]
        more = page["next"]
        pages += 1
    assert found == [(step, rank) for step in range(1, 13) for rank in (0, 1)]
    assert pages == 6


def test_spikes_with_what_came_before(ask: Ask) -> None:
    found = ask("/api/runs/run-4/spikes", window=1).json()["data"]
    (spike,) = found["spikes"]
    assert (spike["step"], spike["peak"], spike["spreads"]) == (14, "NaN", None)
    assert {one["step"] for one in spike["batches"]} == {13, 14}
    assert ask("/api/runs/run-4/spikes", last=13).json()["data"]["spikes"] == []


def test_a_sample_in_all_runs_and_in_one(ask: Ask) -> None:
    everywhere = ask("/api/samples/3").json()["data"]
    assert [(one["run"], one["step"], one["checkpoints"]) for one in everywhere] == [
        (f"run-{number}", 1, [12]) for number in range(5)
    ]
    assert len(ask("/api/samples/3", run="run-2").json()["data"]) == 1
    assert ask("/api/samples/3", dataset="other").json()["data"] == []
    assert ask("/api/samples/images/cat.jpg").json()["data"] == []
    assert ask(f"/api/samples/{10**30}").json()["data"] == []
    few = ask("/api/samples/3", limit=2).json()
    assert (len(few["data"]), few["warnings"]) == (2, ["only the first 2 batches with it are listed"])


@pytest.mark.parametrize(
    ("path", "params", "status", "words"),
    [
        ("/api/runs/none", {}, 404, "no run 'none' is known"),
        ("/api/runs/run-1/steps/99", {}, 404, "known are 1 to 14"),
        ("/api/runs/run-1/steps/-1", {}, 400, "cannot parse '-1'"),
        ("/api/runs/run-1/steps/x", {}, 400, "cannot parse 'x'"),
        ("/api/runs/run-1/steps/1", {"rank": "a"}, 400, 'parameter "rank"'),
        ("/api/runs/run-1/checkpoints/11", {}, 404, "those of steps 12 are near"),
        ("/api/runs/run-1/checkpoints/12", {"stretch": "7"}, 404, "no checkpoint of step 12"),
        ("/api/runs/run-1/checkpoints/12/batches", {"next": "x"}, 400, 'parameter "next"'),
        ("/api/runs/run-1/artifacts/x", {}, 404, "no artifact 'x'"),
        ("/api/runs/run-1/artifacts/1.2.3", {}, 404, "no artifact '1.2.3'"),
        ("/api/runs/run-1/spikes", {"value": "accuracy"}, 404, "no value 'accuracy'"),
        ("/api/runs", {"state": "asleep"}, 400, "running, stalled"),
        ("/api/runs", {"workload": "train"}, 400, "CLUSTER/NAMESPACE/KIND/NAME"),
        ("/api/runs", {"limit": "-1"}, 400, '"limit"'),
        ("/api/samples/1", {"run": "none"}, 404, "no run 'none'"),
    ],
)
def test_what_cannot_be_answered(
    ask: Ask, path: str, params: dict[str, str], status: int, words: str
) -> None:
    answer = ask(path, **params)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_a_pods_name_that_is_used_again(workloads: WorkloadRecords) -> None:
    """No uid was told: the workload is that of the pod that was there meanwhile."""

    def process(begin: float, end: float) -> RankProcess:
        run = RunId(f"at-{begin}")
        return RankProcess(
            run, 0, WriterId("w"), minute(begin), heard_ms=minute(end), namespace="ml", pod="tune-0"
        )

    found = workloads_of([process(-50, -45), process(1, 2)], workloads)
    assert {run: [key.name for key in keys] for run, keys in found.items()} == {"at--50": ["tune"]}


def test_where_nothing_is_kept() -> None:
    with running(Api().build()) as url:
        assert httpx.get(f"{url}/api/runs").json()["data"] == {"runs": [], "next": None}
        assert httpx.get(f"{url}/api/samples/1").json()["data"] == []
        assert httpx.get(f"{url}/api/runs/x").status_code == 404


def test_the_schema_is_that_of_the_answers(ask: Ask) -> None:
    schema = document()
    types = schema["components"]["schemas"]
    for path, name in (
        ("/api/runs", "RunPage"),
        ("/api/runs/run-4", "RunDetail"),
        ("/api/runs/run-4/checkpoints/12", "CheckpointContents"),
        ("/api/runs/run-4/checkpoints/12/batches", "BatchPage"),
        ("/api/runs/run-4/steps/3", "StepDetail"),
        ("/api/runs/run-4/spikes", "SpikesAnswer"),
    ):
        check(ask(path).json()["data"], types[name], types)
    for one in ask("/api/samples/3").json()["data"]:
        check(one, types["SightingAnswer"], types)


def check(value: Any, schema: dict[str, Any], types: dict[str, Any]) -> None:
    """Every field is in the schema, and every required one is there; as far as objects and lists go."""
    if "$ref" in schema:
        schema = types[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and isinstance(value, dict | list):
        kind = "object" if isinstance(value, dict) else "array"
        schema = next(one for one in schema["anyOf"] if "$ref" in one or one.get("type") == kind)
        return check(value, schema, types)
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= set(value) <= set(schema["properties"])
        for name, part in value.items():
            check(part, schema["properties"][name], types)
    elif isinstance(value, list) and "items" in schema and schema["items"] is not False:
        for part in value:
            check(part, schema["items"], types)
    return None
