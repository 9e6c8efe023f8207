"""/api/v1/runs/records over HTTP: what each status means to whoever sends."""

from __future__ import annotations

import gzip
import queue
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from known_sender import sent_by
from memory_api import Api, running
from run_lines import Sender
from trilens.collect.runs.intake import RunIntake
from trilens.model.errors import RunIntakeBusy, StoreReadOnly, TrilensError
from trilens.model.run import Ending, RunId
from trilens.model.workload import PodKey
from trilens.serve.access.name_lookup import NameLookup
from trilens.serve.access.told_addresses import ToldAddresses
from trilens.serve.envelope import on_trilens_error
from trilens.serve.runs_intake import RunRecordsApi
from trilens.settings.load import load_settings
from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
def serving(
    intake: RunIntake | None,
    *clusters: str,
    names: NameLookup | None = None,
    pods: Mapping[str, Sequence[PodKey]] | None = None,
) -> Iterator[httpx.Client]:
    """With a token for these clusters, or for all."""
    told = ToldAddresses(load_settings(environ={}), lambda: pods or {}, names=names)
    api = RunRecordsApi(intake, told, ThreadPoolExecutor(2), 1 << 20)
    app = Starlette(
        routes=[Route("/records", api.take, methods=["POST"])],
        exception_handlers={TrilensError: on_trilens_error},
    )
    with running(sent_by(app, *clusters)) as url, httpx.Client(base_url=url) as client:
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


def test_an_address_that_is_not_the_tellers_own_is_not_kept(intake: RunIntake, records: Records) -> None:
    """The records are: what else could be asked through this server is no reason to lose them."""
    addresses = ("127.0.0.1:9400", "169.254.169.254:80", "10.1.1.1:9400", "no address")
    with serving(intake) as client:
        for rank, address in enumerate(addresses):
            sender = Sender(run="told", rank=rank)
            told = {"started_ms": 1_000, "metrics_address": address}
            assert client.post("/records", content=sender.batch(1, process=told)).status_code == 200
    kept = {one.rank: one.metrics_address for one in records.processes(["told"])}  # type: ignore[list-item]
    assert kept == {0: "127.0.0.1:9400", 1: None, 2: None, 3: None}


def test_an_address_of_a_pod_is_kept_of_that_pod_alone(intake: RunIntake, records: Records) -> None:
    pods = {"10.7.0.9": [PodKey("prod", "ml", "p", "u")]}
    told = {"started_ms": 1_000, "metrics_address": "10.7.0.9:9400", "namespace": "ml"}
    for rank, (cluster, pod) in enumerate((("prod", "p"), ("prod", "other"), ("sandbox", "p"))):
        with serving(intake, cluster, pods=pods) as client:
            sender = Sender(run=f"of-{cluster}", rank=rank)
            body = sender.batch(1, process={**told, "pod": pod})
            assert client.post("/records", content=body).status_code == 200
    runs = [RunId("of-prod"), RunId("of-sandbox")]
    kept = {one.rank: one.metrics_address for one in records.processes(runs)}
    assert kept == {0: "10.7.0.9:9400", 1: None, 2: None}


def test_names_that_nobody_knows_hold_up_no_one_else(
    intake: RunIntake, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = queue.SimpleQueue[str](), threading.Event()
    real = socket.getaddrinfo

    def resolve(name: str, *arguments: Any, **named: Any) -> Any:
        if not name.endswith(".example"):
            return real(name, *arguments, **named)
        asked.put(name)
        assert answered.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    def send(client: httpx.Client, rank: int) -> int:
        told = [{"started_ms": 1_000, "metrics_address": f"{n}.example:9400"} for n in ("first", "last")]
        sender = Sender(run="slow", rank=rank)
        body = b"".join(sender.batch(1, process=process) for process in told)
        return client.post("/records", content=body, timeout=60).status_code

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with (
        serving(intake, names=NameLookup(longest_s=60.0)) as client,
        ThreadPoolExecutor(4) as senders,
    ):
        slow = [senders.submit(send, client, rank) for rank in range(4)]  # as many as one sender has threads
        names = [asked.get(timeout=60) for _ in slow]
        assert client.post("/records", content=Sender(run="quick").first(1)).status_code == 200
        answered.set()
        assert [one.result() for one in slow] == [200] * 4
    assert names == ["last.example"] * 4
    assert asked.empty()
    assert {one.metrics_address for one in records.processes([RunId("slow")])} == {"127.0.0.1:9400"}


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

        monkeypatch.setattr(intake, "take", busy)
        answer = client.post("/records", content=first)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def test_the_token_is_asked_for() -> None:
    with running(Api(overrides={"server.token": "secret-enough"}).build()) as url:
        assert httpx.post(f"{url}/api/v1/runs/records", content=b"{}").status_code == 401


def test_a_token_for_a_cluster_sends_of_no_other(intake: RunIntake, records: Records) -> None:
    prod, west = Sender(run="bound"), Sender(run="wests")
    process = {"started_ms": 1_000, "pod": "train-0", "namespace": "ml"}
    with serving(intake, "prod") as client:
        assert client.post("/records", content=prod.first(2, process=process)).status_code == 200
        told = west.first(2, process={**process, "cluster": "west"})
        refused = client.post("/records", content=told)
        assert refused.status_code == 403
        assert "this token sends of the cluster prod only, and this is of 'west'" in refused.json()["error"]
    with serving(intake, "west") as client:
        assert client.post("/records", content=told).status_code == 200
        # Nor does it add to a run of another cluster, whatever it says of itself.
        other = Sender(run="bound", number=2)
        assert client.post("/records", content=other.first(1, process=process)).status_code == 403
        assert client.post("/records", content=prod.batch(1)).status_code == 403
        assert client.post("/records", content=prod.heartbeat()).status_code == 403
    assert [one.cluster for one in records.processes([RunId("bound"), RunId("wests")])] == ["prod", "west"]
    assert intake.stats.forbidden == 4
    assert len(records.steps(RunId("bound"), 0, 9)) == 2


def test_a_token_for_several_clusters_asks_of_which_it_is(intake: RunIntake, records: Records) -> None:
    sender = Sender(run="either")
    with serving(intake, "prod", "west") as client:
        refused = client.post("/records", content=sender.heartbeat())
        assert (refused.status_code, "does not say of which it is" in refused.json()["error"]) == (403, True)
        told = sender.first(1, process={"started_ms": 1_000, "cluster": "west"})
        assert client.post("/records", content=told).status_code == 200
        assert client.post("/records", content=sender.batch(1)).status_code == 200
    with serving(RunIntake(records), "prod") as client:  # that has not met the run since its start
        assert client.post("/records", content=sender.heartbeat()).status_code == 403


def test_a_sender_that_says_no_cluster_is_in_that_of_its_token(intake: RunIntake, records: Records) -> None:
    with serving(intake, "prod") as client:
        assert client.post("/records", content=Sender(run="quiet").heartbeat()).status_code == 200
    with serving(intake) as client:
        assert client.post("/records", content=Sender(run="free").first(1)).status_code == 200
    intake.settle()
    told = {one.run: one.cluster for one in records.processes([RunId("quiet"), RunId("free")])}
    assert told == {"quiet": "prod", "free": None}
