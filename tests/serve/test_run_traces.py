"""/api/runs/{run}/traces: the past as OTLP, in pages of whole steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from memory_api import Api, running
from trilens.collect.otlp.attributes import read_attributes
from trilens.model.run import BatchRecord, RunFacts, RunId, StepRecord
from trilens.model.run_commit import RunCommit
from trilens.serve import run_traces
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = RunId("r-1")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("store")), upkeep=False)
    steps = [
        StepRecord(RUN, step, rank, 0, step, 1_000 * step, 900, {"forward": 300})
        for step in range(5)
        for rank in range(3)
    ]
    batches = [
        BatchRecord(RUN, one.step, one.rank, 0, one.n, dataset="c4", ids=(one.step, 99), size=2)
        for one in steps
    ]
    store.runs.commit(RunCommit(facts=[RunFacts(RUN, 1_000)], steps=steps, batches=batches))
    with running(Api(runs=store.runs).build()) as address:
        yield address
    store.close()


def told(answer: httpx.Response) -> list[tuple[int, int, list[int]]]:
    """Step, rank and samples of each step in an answer."""
    assert answer.status_code == 200, answer.text
    found = []
    for resource in ExportTraceServiceRequest.FromString(answer.content).resource_spans:
        rank = read_attributes(resource.resource.attributes)["training.rank"]
        for span in resource.scope_spans[0].spans:
            own = read_attributes(span.attributes)
            if "training.step" in own:
                found.append((own["training.step"], rank, own["training.sample_ids"]))
    return sorted(found)


def test_pages_hold_whole_steps_and_all_of_them_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_traces, "_RECORDS", 7)
    path, pages, first = f"{url}/api/runs/{RUN}/traces", [], "0"
    while first:
        answer = httpx.get(path, params={"first": first})
        pages.append(told(answer))
        first = answer.headers.get("Trilens-Next-Step", "")
    assert [{step for step, _, _ in page} for page in pages] == [{0, 1}, {2, 3}, {4}]
    expected = [(step, rank, [step, 99]) for step in range(5) for rank in range(3)]
    assert [one for page in pages for one in page] == expected


def test_a_step_that_is_larger_than_a_page_is_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_traces, "_RECORDS", 2)
    answer = httpx.get(f"{url}/api/runs/{RUN}/traces", params={"first": 3, "last": 4})
    assert [(step, rank) for step, rank, _ in told(answer)] == [(3, 0), (3, 1), (3, 2)]
    assert answer.headers["Trilens-Next-Step"] == "4"


def test_what_is_not_there_and_what_is_no_step(url: str) -> None:
    assert httpx.get(f"{url}/api/runs/nobody/traces").status_code == 404
    answer = httpx.get(f"{url}/api/runs/{RUN}/traces", params={"first": "x"})
    assert (answer.status_code, "is no step" in answer.text) == (400, True)
    assert httpx.get(f"{url}/api/runs/{RUN}/traces", params={"first": 77}).content == b""
