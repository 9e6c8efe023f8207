"""/api/v1/runs/records over HTTP: what each status means to whoever sends."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from memory_api import Api, running
from run_lines import Sender
from trilens.collect.runs.intake import RunIntake
from trilens.model.errors import RunIntakeBusy, StoreReadOnly, TrilensError
from trilens.model.run import Ending
from trilens.serve.envelope import on_trilens_error
from trilens.serve.runs_intake import RunRecordsApi
from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.run_commit import RunCommit


class Records(RunRecords):
    failure: Exception | None = None

    def commit(self, commit: RunCommit) -> None:
        if self.failure is not None:
            raise self.failure
        super().commit(commit)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    with Engine.open(tmp_path_factory.mktemp("runs") / "data") as engine:
        migrate(engine)
        yield Records(engine)


@contextmanager
def serving(intake: RunIntake | None) -> Iterator[httpx.Client]:
    api = RunRecordsApi(intake, ThreadPoolExecutor(2), 1 << 20)
    app = Starlette(
        routes=[Route("/records", api.take, methods=["POST"])],
        exception_handlers={TrilensError: on_trilens_error},
    )
    with running(app) as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.fixture
def intake(records: Records) -> Iterator[RunIntake]:
    made = RunIntake(records)
    made.start()
    yield made
    made.stop()


def test_what_is_taken_is_answered_with_its_number(intake: RunIntake, records: Records) -> None:
    sender = Sender(run="taken")
    with serving(intake) as client:
        body = gzip.compress(sender.first(2) + sender.batch(3))
        answer = client.post("/records", content=body, headers={"Content-Encoding": "gzip"})
        assert answer.status_code == 200
        assert answer.json() == {"status": "success", "data": {"seq": 1, "interval_s": 2.0}}
        beat = Sender(run="taken", rank=1).heartbeat()
        assert client.post("/records", content=beat).json()["data"]["seq"] is None
        for_dead = client.post("/records?for_dead=true", content=sender.batch(1))
        assert for_dead.json()["data"]["seq"] == 2
    (first, second) = records.processes(["taken"])  # type: ignore[list-item]
    assert (first.ending, second.ending) == (Ending.LOST, None)


def test_a_batch_that_cannot_be_read_is_named(intake: RunIntake) -> None:
    sender = Sender(run="bad")
    with serving(intake) as client:
        bad = sender.first(1) + sender.batch(validations=[{"n": 1}])
        answer = client.post("/records", content=bad)
        assert answer.status_code == 400
        said = answer.json()
        assert said["data"] == {"seq": 1}
        assert said["error"].startswith("seq 1: ")
        assert client.post("/records", content=sender.batch(1)).json()["data"]["seq"] == 2
        assert client.post("/records", content=b"<html>").status_code == 400
        assert client.post("/records", content=b"x" * (1 << 21)).status_code == 413
        bomb = gzip.compress(b" " * (65 << 20))
        assert client.post("/records", content=bomb, headers={"Content-Encoding": "gzip"}).status_code == 413


def test_a_full_disk_and_a_full_queue_ask_to_come_again(
    intake: RunIntake, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(run="later")
    with serving(intake) as client:
        first = sender.first(1)
        records.failure = StoreReadOnly("no space left on disk")
        full = client.post("/records", content=first)
        records.failure = ValueError("a fault of ours")
        fault = client.post("/records", content=first)
        records.failure = None
        assert [(full.status_code, full.headers["Retry-After"])] == [(503, "5")]
        assert (fault.status_code, "fault of ours" in fault.text) == (503, False)
        assert client.post("/records", content=first).json()["data"]["seq"] == 0

        def busy(*_: object, **__: object) -> None:
            raise RunIntakeBusy("too much waits")

        monkeypatch.setattr(intake, "receive", busy)
        answer = client.post("/records", content=first)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def test_the_token_is_asked_for() -> None:
    with running(Api(overrides={"server.token": "secret-enough"}).build()) as url:
        assert httpx.post(f"{url}/api/v1/runs/records", content=b"{}").status_code == 401
