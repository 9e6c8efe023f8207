"""/api/workloads over HTTP, from records in a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from ledger_nights import hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from trilens.model.ledger import HOUR_MS, Bucket, Holder
from trilens.serve.openapi import document
from workload_records import DOUBT, GONE, minute, some_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    hour_ms, whose = minute(-60), Holder(workload=GONE)
    book = MemoryBook(hour(hour_ms, row(hour_ms, whose, Bucket.STARTING, gpus=2, ms=HOUR_MS // 2)))
    folder = tmp_path_factory.mktemp("records")
    with some_records(folder) as records, running(Api(workloads=records, book=book).build()) as url:
        yield lambda path, **params: httpx.get(f"{url}{path}", params=params)


def seconds(minutes: float) -> str:
    return str(minute(minutes) / 1000)


def names(answer: httpx.Response) -> list[str]:
    return [f"{one['kind']}.{one['group']}/{one['namespace']}/{one['name']}" for one in answer.json()["data"]]


def failed(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert body["status"] == "error"
    return answer.status_code, body["errorType"]


def test_the_workloads_of_a_moment(ask: Ask) -> None:
    assert names(ask("/api/workloads", at=seconds(-1))) == []
    answer = ask("/api/workloads", at=seconds(5), namespace="ml")
    assert names(answer) == [
        "Job.batch/ml/batch",
        "Job.batch.volcano.sh/ml/batch",
        "PyTorchJob.kubeflow.org/ml/train",
    ]
    train = answer.json()["data"][2]
    assert (train["team"], train["cost_centre"], train["queue"]) == ("vision", None, "gpu")
    assert train["members"] == {"total": 2, "on_nodes": 1, "ready": None}
    assert train["attempt"] == 0
    assert train["phase"] == {
        "phase": "running",
        "reason": "",
        "attempt": 0,
        "from_ms": minute(0),
        "to_ms": None,
        "seconds": 300.0,
    }
    assert train["doubts"] == [DOUBT._asdict()]


def test_filters(ask: Ask) -> None:
    assert names(ask("/api/workloads", at=seconds(15), phase="preempted")) == [
        "PyTorchJob.kubeflow.org/ml/train"
    ]
    assert names(ask("/api/workloads", namespace="web")) == ["Deployment.apps/web/train"]
    assert names(ask("/api/workloads", cluster="prod")) == []
    assert names(ask("/api/workloads", name="batch")) == [
        "Job.batch/ml/batch",
        "Job.batch.volcano.sh/ml/batch",
    ]
    wrong = ask("/api/workloads", phase="asleep")
    assert failed(wrong) == (400, "bad_data")
    assert "queued, admitted" in wrong.json()["error"]
    assert failed(ask("/api/workloads", at="yesterday")) == (400, "bad_data")


def test_those_that_are_gone(ask: Ask) -> None:
    answer = ask("/api/workloads", **{"from": seconds(-35), "at": seconds(0)}, name="tune")
    assert names(answer) == ["Job.batch/ml/tune"]
    assert answer.json()["data"][0]["gone"] == {
        "at_ms": minute(-30),
        "phase": "failed",
        "reason": "exit code 1",
    }
    assert names(ask("/api/workloads", **{"from": "0"}, name="tune")) == [
        "Job.batch/ml/tune",
        "Job.batch/web/tune",
    ]
    assert failed(ask("/api/workloads", **{"from": seconds(1)}, at=seconds(0))) == (400, "bad_data")


def test_one_workload_with_its_history(ask: Ask) -> None:
    whole = ask("/api/workloads/lab/ml/PyTorchJob/train", at=seconds(25)).json()["data"]
    assert [(m["pod"], m["attempt"], m["to_ms"]) for m in whole["members"]] == [
        ("train-0", 0, minute(10)),
        ("train-1", 0, minute(10)),
        ("train-0", 1, None),
        ("train-1", 1, None),
    ]
    assert [m["node"] for m in whole["members"]][:2] == [None, "node-a"]
    assert [(p["phase"], p["seconds"]) for p in whole["phases"]] == [
        ("running", 600.0),
        ("preempted", 600.0),
        ("running", 300.0),
    ]
    assert whole["seconds_in_phase"] == {"running": 900.0, "preempted": 600.0}
    assert [(a["attempt"], a["to_ms"], a["phase"], a["reason"]) for a in whole["attempts"]] == [
        (0, minute(20), "preempted", "by team nlp"),
        (1, None, "running", ""),
    ]
    assert whole["steps"][0]["name"] == "fit"


def test_the_past_does_not_know_what_came_after(ask: Ask) -> None:
    then = ask("/api/workloads/lab/ml/PyTorchJob/train", at=seconds(5)).json()["data"]
    assert [(m["pod"], m["to_ms"]) for m in then["members"]] == [("train-0", None), ("train-1", None)]
    assert [p["to_ms"] for p in then["phases"]] == [None]
    assert then["workload"]["attempt"] == 0


def test_of_many_members_some(ask: Ask) -> None:
    some = ask("/api/workloads/lab/ml/PyTorchJob/train", at=seconds(25), limit="3").json()["data"]
    assert [(m["pod"], m["attempt"], m["to_ms"]) for m in some["members"]] == [
        ("train-0", 0, minute(10)),
        ("train-0", 1, None),
        ("train-1", 1, None),
    ], "those that are there come before those that have left"
    assert (some["members_known"], some["gpus_held"]) == (4, 0)
    assert some["workload"]["members"]["total"] == 2


def test_a_kind_of_two_groups_has_to_be_told_apart(ask: Ask) -> None:
    either = ask("/api/workloads/lab/ml/Job/batch")
    assert failed(either) == (400, "bad_data")
    assert "Job.batch or Job.batch.volcano.sh" in either.json()["error"]
    one = ask("/api/workloads/lab/ml/Job.batch.volcano.sh/batch").json()["data"]["workload"]
    assert one["group"] == "batch.volcano.sh"


def test_what_is_not_there(ask: Ask) -> None:
    assert failed(ask("/api/workloads/lab/ml/PyTorchJob/nothing")) == (404, "not_found")
    assert failed(ask("/api/workloads/lab/ml/PyTorchJob/train", at=seconds(-1))) == (404, "not_found")


def test_nothing_is_watched(ask: Ask) -> None:
    with running(Api().build()) as url:
        empty = httpx.get(f"{url}/api/workloads").json()
        assert empty["data"] == []
        assert "kubernetes.clusters" in empty["warnings"][0]
    assert "lab: no longer watched" in ask("/api/workloads").json()["warnings"][1]


def test_the_schema_is_that_of_the_answers(ask: Ask) -> None:
    schema = ask("/api/openapi.json").json()
    assert schema == msgspec.json.decode(msgspec.json.encode(document()))
    for path in schema["paths"]:
        assert path.startswith(("/api/", "/auth/"))
    types = schema["components"]["schemas"]
    whole = ask("/api/workloads/lab/ml/PyTorchJob/train").json()["data"]
    check(whole, types["WorkloadDetail"], types)
    gone = ask("/api/workloads/lab/ml/Job/tune").json()["data"]
    check(gone, types["WorkloadDetail"], types)
    assert (gone["spent"]["amount"], gone["spent"]["for_nothing"]) == ("4", "4")
    assert whole["spent"] is None, "none of its hours is booked"
    assert ask("/api/workloads/lab/ml/Job/tune", at=seconds(-31)).json()["data"]["spent"] is None, (
        "the ledger has whole hours"
    )
    for one in ask("/api/workloads").json()["data"]:
        check(one, types["WorkloadAnswer"], types)


def check(value: Any, schema: dict[str, Any], types: dict[str, Any]) -> None:
    """As far as objects and lists go: every field is in the schema, and every required one is there."""
    if "$ref" in schema:
        schema = types[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and isinstance(value, dict):
        schema = next(types[s["$ref"].rpartition("/")[2]] for s in schema["anyOf"] if "$ref" in s)
    if isinstance(value, list):
        for one in value:
            check(one, schema["items"], types)
    elif isinstance(value, dict) and "properties" in schema:
        assert set(value) == set(schema["required"]) == set(schema["properties"])
        for name, one in value.items():
            check(one, schema["properties"][name], types)
