"""What MLflow answers when it is not well, by a stand-in. The real one is in tests/together."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from json_stand_in import answering

from trilens.collect.trackers.json_api import JsonApi
from trilens.collect.trackers.mlflow import MlflowServer
from trilens.model.errors import TrackerAway, TrackerError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Mlflow:
    """Two runs that are over: a pass asks for them only once, unless one of them could not be read."""

    def __init__(self) -> None:
        self.passes = 0
        self.history: Any = {"metrics": 7}  # of the first run
        self.stage = "active"

    def answer(self, path: str, body: Any) -> Any:
        if "experiments/search" in path:
            self.passes += 1
            return {"experiments": [{"experiment_id": "0", "name": "llm"}]}
        if "runs/search" in path:
            return {"runs": [self._run("bad"), self._run("good")] if self.passes == 1 else []}
        if "runs/get" in path:
            return {"run": self._run("bad")}
        point = {"key": "loss", "value": 0.5, "timestamp": 1_000, "step": 1}
        return self.history if "run_id=bad" in path else {"metrics": [point]}

    def _run(self, run: str) -> dict[str, Any]:
        last = {"key": "loss", "value": 0.5, "timestamp": 1_000, "step": float("inf")}
        info = {"run_id": run, "experiment_id": "0", "status": "FINISHED", "lifecycle_stage": self.stage}
        return {"info": info, "data": {"metrics": [last]}}


@pytest.fixture
def mlflow() -> Iterator[tuple[Mlflow, MlflowServer]]:
    server = Mlflow()
    with answering(server.answer) as url:
        yield server, MlflowServer(JsonApi(url, dict, False, 5))


def read(reader: MlflowServer) -> list[str]:
    return [change.run.tracker.run for change in reader.changes({})]


def test_a_run_that_cannot_be_read_is_passed_over_and_tried_again_until_it_can(
    mlflow: tuple[Mlflow, MlflowServer], caplog: pytest.LogCaptureFixture
) -> None:
    server, reader = mlflow
    assert read(reader) == ["good"]
    assert read(reader) == []
    assert [getattr(record, "passed_over", None) for record in caplog.records] == ["bad"], "said once"
    server.history = {"metrics": []}
    assert read(reader) == ["bad"]
    assert read(reader) == []


def test_a_run_that_was_deleted_is_not_asked_for_any_more(mlflow: tuple[Mlflow, MlflowServer]) -> None:
    server, reader = mlflow
    read(reader)
    server.stage = "deleted"
    assert read(reader) == []
    server.stage, server.history = "active", {"metrics": []}
    assert read(reader) == []


def test_a_server_that_goes_away_in_a_pass_ends_it_and_nothing_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Mlflow()
    with answering(server.answer) as url:
        reader = MlflowServer(JsonApi(url, dict, False, 5))
        changes = reader.changes({})
        server.history = {"metrics": []}
        next(changes)
    with pytest.raises(TrackerAway, match="no answer from"):
        list(changes)
    assert caplog.records == []


class Between:
    """An MLflow with one run that is over, of which somebody in between may answer something else."""

    def __init__(self) -> None:
        self.instead: dict[str, Any] = {}  # by the end of a path
        self.experiments = {"0": "llm"}
        self.conditions: list[tuple[list[str], str]] = []

    def answer(self, path: str, body: Any) -> Any:
        for end, instead in self.instead.items():
            if path.partition("?")[0].endswith(end):
                return instead
        if "experiments/search" in path:
            told = [{"experiment_id": number, "name": name} for number, name in self.experiments.items()]
            return {"experiments": told} if told else {}
        if "runs/search" in path:
            self.conditions.append((body["experiment_ids"], body["filter"]))
            ids = [] if body["filter"] else body["experiment_ids"]
            return {"runs": [self._run(one) for one in ids]} if ids else {}
        if "runs/get" in path:
            return {"run": self._run("0")}
        return {"metrics": [{"key": "loss", "value": 0.5, "timestamp": 1_000, "step": 1}]}

    def _run(self, experiment: str) -> dict[str, Any]:
        info = {"run_id": f"run-{experiment}", "experiment_id": experiment, "status": "FINISHED"}
        last = {"key": "loss", "value": 0.5, "timestamp": 1_000, "step": 1}
        return {"info": {**info, "lifecycle_stage": "active"}, "data": {"metrics": [last]}}


@pytest.fixture
def between() -> Iterator[tuple[Between, MlflowServer]]:
    server = Between()
    with answering(server.answer) as url:
        yield server, MlflowServer(JsonApi(url, dict, False, 5))


@pytest.mark.parametrize(
    "instead",
    [b"", b" \n", b"<html>", b"[]", {"status": "ok"}, {"runs": "none"}, {"runs": None}, {"runs": [7]}],
    ids=str,
)
@pytest.mark.parametrize("of", ["experiments/search", "runs/search"])
def test_an_answer_that_is_none_of_mlflow_ends_the_pass_and_the_next_reads_all(
    between: tuple[Between, MlflowServer], instead: Any, of: str
) -> None:
    server, reader = between
    server.instead[of] = instead
    with pytest.raises(TrackerError):
        read(reader)
    del server.instead[of]
    assert read(reader) == ["run-0"]


def test_an_experiment_that_becomes_visible_later_is_read_from_its_beginning(
    between: tuple[Between, MlflowServer],
) -> None:
    server, reader = between
    server.instead["experiments/search"] = {}
    assert read(reader) == []
    del server.instead["experiments/search"]
    assert read(reader) == ["run-0"]
    server.experiments["1"] = "vision"
    server.conditions.clear()
    assert read(reader) == ["run-1"]
    assert (["1"], "") in server.conditions
    assert all(condition for experiments, condition in server.conditions if experiments == ["0"])
    server.conditions.clear()
    assert read(reader) == []
    assert [experiments for experiments, _ in server.conditions] == [["0", "1"]] * 3, "asked for together"


def test_an_experiment_that_was_hidden_for_a_while_is_read_from_then_on(
    between: tuple[Between, MlflowServer],
) -> None:
    server, reader = between
    read(reader)
    server.experiments = {"1": "vision"}
    time.sleep(0.002)  # what is marked is the millisecond
    read(reader)
    server.experiments = {"0": "llm", "1": "vision"}
    server.conditions.clear()
    read(reader)
    since = [condition for experiments, condition in server.conditions if experiments == ["0"]]
    later = [condition for experiments, condition in server.conditions if experiments == ["1"]]
    assert len(since) == len(later) == 3
    assert since[1] < later[1], "what it told meanwhile is asked for"


def test_a_run_to_be_read_again_is_not_forgotten_for_an_answer_that_tells_of_no_run(
    between: tuple[Between, MlflowServer],
) -> None:
    server, reader = between
    server.instead = {"metrics/get-history": {"status": "ok"}, "runs/get": {}}
    assert read(reader) == []
    assert read(reader) == []
    server.instead = {}
    assert read(reader) == ["run-0"]
    assert read(reader) == []
