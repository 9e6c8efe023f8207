"""What MLflow answers when it is not well, by a stand-in. The real one is in tests/together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from json_stand_in import answering

from trilens.collect.trackers.json_api import JsonApi
from trilens.collect.trackers.mlflow import MlflowServer
from trilens.model.errors import TrackerAway

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
