"""Faults that are made to happen while a simulated cluster answers, and mended before their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from worlds import after, small

from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(after(small(), 10)) as running:
        yield running


def post(cluster: SimulatedCluster, **fault: Any) -> httpx.Response:
    return httpx.post(f"{cluster.url}/faults", json=fault)


def test_what_is_posted_goes_wrong_and_what_is_deleted_is_mended(cluster: SimulatedCluster) -> None:
    struck = post(cluster, kind="gil-held", rank=5, lasts="10h")
    assert struck.status_code == 201, struck.text
    told = struck.json()
    (job,) = cluster.ask(lambda world: [one for one in world.truth.jobs.values() if one.trains])
    assert (told["kind"], told["rank"], told["to_ms"]) == ("gil-held", 5, None)
    assert (told["namespace"], told["workload"]) == (job.namespace, job.name)
    again = post(cluster, kind="gil-held", rank=5)
    assert (again.status_code, again.text) == (409, "there is nothing that gil-held could strike now\n")
    where = f"{cluster.url}/faults/{told['number']}"
    mended = httpx.delete(where)
    assert mended.status_code == 200
    assert mended.json()["to_ms"] is not None
    assert httpx.delete(where).status_code == 409
    assert httpx.get(f"{cluster.url}/faults").json()[told["number"]] == mended.json()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{", "no JSON"),
        ("[]", "a JSON object is wanted"),
        ('{"kind": "hnag"}', "kind: "),
        ('{"kind": "hang", "jbo": "x"}', "jbo: there is no such key"),
        ('{"kind": "hang", "job": "nobody"}', "the scenario has no job 'nobody'"),
    ],
    ids=["json", "list", "kind", "key", "job"],
)
def test_what_is_no_fault_is_refused(cluster: SimulatedCluster, body: str, complaint: str) -> None:
    answer = httpx.post(f"{cluster.url}/faults", content=body)
    assert answer.status_code == 400
    assert complaint in answer.text
    assert httpx.delete(f"{cluster.url}/faults/99").status_code == 404


def test_a_node_that_is_mended_before_anybody_sees_was_never_not_ready() -> None:
    world = after(small(), 10)
    told = world.strike(Fault(kind=FaultKind.NODE_NOT_READY, at=0, node=0, lasts=3600))
    assert told is not None
    after(world, 10.3)
    assert world.mend(0)
    assert told.to_ms == world.now_ms
    after(world, 15)
    (node,) = (one for one in world.objects.list("", "v1", "nodes") if one["metadata"]["name"] == told.node)
    ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    assert ready["status"] == "True"
    assert not world.mend(0)
