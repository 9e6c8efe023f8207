"""Servers of models that tell of themselves are scraped and listed while they live, and are no runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import httpx
import pytest

from memory_api import Api, running
from trilens.collect.manager import ScrapeManager
from trilens.model.errors import RequestError
from trilens.sdk.serving import registration
from trilens.sdk.serving.program import ServingProgram
from trilens.serve import serving_programs
from trilens.serve.scrape_jobs import ScrapeJobs
from trilens.serve.serving_programs import ServingProcess, ServingPrograms
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Noticed(ServingPrograms):
    """Whose heartbeats can be waited for."""

    def __init__(self, jobs: tuple[ScrapeManager, ScrapeJobs] | None = None) -> None:
        self.now_s = 0.0
        self.beats = threading.Semaphore(0)
        scraped = (*jobs, {"scrape_interval": "1h"}) if jobs is not None else None
        super().__init__(scraped, lambda: self.now_s)

    def heard(self, process: ServingProcess) -> None:
        super().heard(process)
        self.beats.release()


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServingProgram]:
    monkeypatch.setenv("TRILENS_METRICS_LISTEN", "127.0.0.1:0")
    monkeypatch.setattr(registration, "HEARTBEAT_S", 0.01)
    made = ServingProgram()
    yield made
    made.close()


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A server that has heard of nobody."""
    with running(Api(serving=Noticed()).build()) as url:
        yield url


def test_one_that_tells_of_itself_is_scraped_and_listed_while_it_lives(
    program: ServingProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = Store.open(StoreOptions(tmp_path), upkeep=False)
    manager = ScrapeManager([], store)
    jobs = ScrapeJobs(manager, [])
    jobs.start()
    known = Noticed((manager, jobs))
    with running(Api(serving=known).build()) as url:
        monkeypatch.setenv("TRILENS_SERVER", url)
        address = program.listen()
        for _ in range(3):
            assert known.beats.acquire(timeout=20)
        [listed] = httpx.get(f"{url}/api/v1/sd/programs").json()
        assert listed["targets"] == [address]
        assert listed["labels"]["__meta_trilens_role"] == "serving"
        assert httpx.get(f"{url}/api/runs").json()["data"]["runs"] == []
        program.close()
    known.look()
    [status] = manager.targets()
    assert (status.job, status.labels["job"]) == (f"trilens-serving/{address}", "trilens-serving")
    assert status.labels["instance"] == address
    known.now_s = 60.0
    known.look()
    assert known.programs() == []
    assert manager.targets() == []
    jobs.stop()
    store.close()


def test_a_server_that_wants_a_token_is_given_it(
    program: ServingProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Noticed()
    with running(Api(serving=known, overrides={"server.token": "sesame"}).build()) as url:
        monkeypatch.setenv("TRILENS_SERVER", url)
        monkeypatch.setenv("TRILENS_TOKEN", "sesame")
        program.listen()
        assert known.beats.acquire(timeout=20)
        assert httpx.post(f"{url}/api/v1/programs/heartbeat", json={"address": "a:1"}).status_code == 401


@pytest.mark.parametrize(
    "told",
    [b"", b"[]", b"{}", b'{"address": 7}', b'{"address": "http://a:1/x"}', b'{"address": "a:1", "pid": "x"}',
     b'{"address": "a:1", "heartbeat_s": 1e9}', b"\xff", b"{" * 60_000],
    ids=["empty", "list", "no address", "number", "url", "pid", "interval", "bytes", "deep"],
)  # fmt: skip
def test_what_is_no_heartbeat_is_refused(told: bytes, silent: str) -> None:
    answer = httpx.post(f"{silent}/api/v1/programs/heartbeat", content=told)
    assert (answer.status_code, answer.json()["errorType"]) == (400, "bad_data")
    assert httpx.get(f"{silent}/api/v1/sd/programs").json() == []


def test_there_is_an_end_to_how_many_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_programs, "_MOST", 2)
    known = Noticed()
    for address in ("a:1", "b:1", "a:1"):
        known.heard(ServingProcess(address))
    with pytest.raises(RequestError, match="more than 2"):
        known.heard(ServingProcess("c:1"))
    known.now_s = 60.0
    assert known.programs() == []
    known.heard(ServingProcess("c:1"))
    assert [one.address for one in known.programs()] == ["c:1"]


def test_what_only_this_machine_reaches_is_not_told_to_another(
    program: ServingProgram, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRILENS_SERVER", "http://trilens.example.org:9333")
    with caplog.at_level("INFO"):
        program.listen()
    assert "cannot scrape 127.0.0.1" in caplog.text
