"""Servers of models that tell of themselves are scraped and listed while they live, and are no runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from known_sender import sent_by
from memory_api import Api, running
from trilens.collect.manager import ScrapeManager
from trilens.model.errors import RequestError, TrilensError
from trilens.model.workload import PodKey
from trilens.sdk.serving import registration
from trilens.sdk.serving.program import ServingProgram
from trilens.serve import serving_programs
from trilens.serve.access.told_addresses import ToldAddresses
from trilens.serve.envelope import on_trilens_error
from trilens.serve.scrape_jobs import ScrapeJobs
from trilens.serve.serving_programs import HeartbeatApi, ServingProcess, ServingPrograms
from trilens.settings.load import load_settings
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

    def heard(self, process: ServingProcess, by: str = "") -> None:
        super().heard(process, by)
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


def test_no_sender_takes_the_room_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_programs, "_MOST_OF_ONE", 2)
    known = ServingPrograms(None)
    for pid in range(9):  # another word of the same one takes no room
        known.heard(ServingProcess("a:1", pid=pid, node=f"n{pid}"), "token one")
    known.heard(ServingProcess("a:1", cluster="west"), "token one")
    with pytest.raises(RequestError, match="more than 2"):
        known.heard(ServingProcess("b:1"), "token one")
    known.heard(ServingProcess("b:1"), "token other")
    told = {(one.address, one.pod.cluster, one.node) for one in known.programs()}
    assert told == {("a:1", "", "n8"), ("a:1", "west", ""), ("b:1", "", "")}


def test_one_address_in_two_clusters_is_two_programs(tmp_path: Path) -> None:
    """Neither token has the other's program scraped as its own."""
    store = Store.open(StoreOptions(tmp_path), upkeep=False)
    manager = ScrapeManager([], store)
    jobs = ScrapeJobs(manager, [])
    jobs.start()
    known = Noticed((manager, jobs))
    for cluster in ("prod", "sandbox", None):
        known.heard(ServingProcess("10.0.0.5:8000", cluster=cluster), f"token {cluster}")
        known.look()
    told = {(one.job, one.labels.get("cluster")) for one in manager.targets()}
    jobs.stop()
    store.close()
    assert told == {
        ("trilens-serving/prod/10.0.0.5:8000", "prod"),
        ("trilens-serving/sandbox/10.0.0.5:8000", "sandbox"),
        ("trilens-serving/10.0.0.5:8000", None),
    }


@pytest.mark.parametrize(("pod", "status"), [("p", 200), ("other", 403)])
@pytest.mark.parametrize("clusters", [("prod",), ("sandbox",), ()])
def test_a_token_has_only_pods_of_its_clusters_scraped(
    clusters: tuple[str, ...], pod: str, status: int
) -> None:
    pods = {"10.7.0.9": [PodKey("prod", "ml", "p", "u")]}
    known = ServingPrograms(None)
    api = HeartbeatApi(known, ToldAddresses(load_settings(environ={}), lambda: pods))
    app = Starlette(
        routes=[Route("/beat", api.take, methods=["POST"])],
        exception_handlers={TrilensError: on_trilens_error},
    )
    with running(sent_by(app, *clusters)) as url:
        beat = {"address": "10.7.0.9:8000", "namespace": "ml", "pod": pod}
        answer = httpx.post(f"{url}/beat", json=beat)
    assert answer.status_code == (403 if clusters == ("sandbox",) else status)
    assert len(known.programs()) == (answer.status_code == 200)


def test_what_only_this_machine_reaches_is_not_told_to_another(
    program: ServingProgram, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRILENS_SERVER", "http://trilens.example.org:9333")
    with caplog.at_level("INFO"):
        program.listen()
    assert "cannot scrape 127.0.0.1" in caplog.text


@pytest.mark.parametrize(
    ("clusters", "told", "status", "cluster"),
    [
        ((), None, 200, ""),
        ((), "west", 200, "west"),
        (("prod",), None, 200, "prod"),
        (("prod",), "west", 403, None),
        (("prod", "west"), "west", 200, "west"),
        (("prod", "west"), None, 403, None),
    ],
)
def test_which_cluster_it_is_in(
    clusters: tuple[str, ...], told: str | None, status: int, cluster: str | None
) -> None:
    known = ServingPrograms(None)
    api = HeartbeatApi(known, ToldAddresses(load_settings(environ={})))
    app = Starlette(
        routes=[Route("/beat", api.take, methods=["POST"])],
        exception_handlers={TrilensError: on_trilens_error},
    )
    with running(sent_by(app, *clusters)) as url:
        beat = {"address": "127.0.0.1:9450", "cluster": told}
        assert httpx.post(f"{url}/beat", json=beat).status_code == status
    assert [one.pod.cluster for one in known.programs()] == ([] if cluster is None else [cluster])
