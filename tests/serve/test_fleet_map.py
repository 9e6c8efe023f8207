"""/api/fleet and /api/gpus/{uuid}/life: the map of all GPUs, and the life of one."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from starlette.requests import Request

from empty_records import NoFaults
from ledger_nights import PRICE, hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from memory_findings import MemoryFindings
from trilens.detect.scene import Figure, JobView, NodeView, Place, Scene, Telemetry
from trilens.detect.watch import Changes
from trilens.model.errors import SourceError
from trilens.model.event import EventKind, EventRecord
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.ledger import HOUR_MS, QUANTA_PER_UNIT, Bucket, Holder
from trilens.model.life import Phase
from trilens.model.machine import Machine, MachineState
from trilens.model.query import QueryGuard
from trilens.model.workload import GpuUuid, PodKey, WorkloadKey
from trilens.resolve.gpus.books import SilentGpu
from trilens.resolve.gpus.missing import NodeGpus
from trilens.serve.app import build_app
from trilens.serve.detection.keeper import DetectionState
from trilens.serve.gpu_bindings import GpusNow
from trilens.serve.own_queries import Matrix
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.fleet_columns import Seen, fleet_answer
from trilens.serve.pages.fleet_machines import KnownMachines
from trilens.serve.pages.fleet_map import FleetApi
from trilens.serve.pages.fleet_scene import KeptScene
from trilens.serve.pages.gpu_life import GpuLifeApi
from trilens.serve.pages.gpu_life_curves import MOST_POINTS, moments
from trilens.serve.pages.shared_answer import FRESH_S, LASTS_S, SharedAnswer
from trilens.store.engine import Engine
from trilens.store.events import EventRecords
from trilens.store.gpus import GpuRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import WorkloadRecords
from workload_records import minute, some_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trilens.serve.own_queries import Times
    from trilens.serve.questions import Questions

NOW_MS = 1_700_000_000_000
H100 = "NVIDIA H100"
TRAIN = WorkloadKey("lab", "ml", "kubeflow.org", "PyTorchJob", "train", "u1")
POD = PodKey("lab", "ml", "train-0", "p0")


def gpu(number: int, node: str = "node-a") -> Gpu:
    return Gpu(GpuKey(GpuUuid(f"GPU-{node}-{number}")), "lab", node, str(number), H100)


def place(number: int, node: str = "node-a", workload: WorkloadKey | None = None) -> Place:
    return Place(GpuUuid(f"GPU-{node}-{number}"), "", "lab", node, str(number), H100, workload)


def looked(places: Sequence[Place], **figures: list[float]) -> KeptScene:
    """One look; a figure has the same value in all columns."""
    columns = {
        Figure[name]: np.repeat(np.array([values], np.float32).T, 240, 1) for name, values in figures.items()
    }
    job = JobView(TRAIN, "vision", 0, Phase.RUNNING, NOW_MS - 60_000, False, rows=(0,))
    nodes = [NodeView("lab", "node-a", True, rack="r1")]
    kept = KeptScene()
    kept.take(Scene(NOW_MS, Telemetry(places, np.arange(240), columns), [job], nodes), Changes())
    return kept


def found(severity: Severity, text: str, **subject: Any) -> FindingInterval:
    finding = Finding(
        "D009", FindingKind.GPU_FAULT, Subject(**subject), severity, "", NOW_MS - 9_000, text, "Do it."
    )
    return FindingInterval(finding, NOW_MS - 5_000, NOW_MS)


def seen(kept: KeptScene, gpus: Sequence[Gpu], **more: Any) -> Seen:
    now = GpusNow(gpus={one.key: one for one in gpus}, nodes=more.pop("nodes", ()))
    nothing = {"held": (), "machines": (), "findings": (), "faults": {}, "incidents": ()}
    return Seen(kept.now, now, **{**nothing, **more})


def test_a_gpu_with_what_it_reads_who_holds_it_and_its_node() -> None:
    kept = looked(
        [place(1), place(0, workload=TRAIN)],
        UTILIZATION=[0.97, 0.0],
        TEMPERATURE=[63.4, 31.0],
        POWER=[620.2, 70.0],
    )
    held = (GpuBinding(gpu(0).key, POD, "main", Fraction(1), (ClaimSource.DCGM,)),)
    machine = Machine(
        "lab", "node-a", "p5.48xlarge", zone="z1", gpus=8, state=MachineState.CORDONED, reason="by hand"
    )
    answer = fleet_answer(seen(kept, [gpu(0), gpu(1)], held=held, machines=(machine,)))
    gpus, nodes = answer.gpus, answer.nodes
    assert answer.at_ms == NOW_MS
    assert (gpus.number, gpus.node, gpus.state, gpus.health) == (
        ["0", "1"],
        [0, 0],
        ["reporting"] * 2,
        ["ok"] * 2,
    )
    assert (gpus.utilization, gpus.temperature_celsius, gpus.power_watts) == (
        [0.0, 0.97],
        [31.0, 63.0],
        [70.0, 620.0],
    )
    assert [answer.models[at or 0] for at in gpus.model] == [H100, H100]
    assert (gpus.workload, gpus.holders) == ([0, None], [1, 0])
    (holder,) = answer.workloads
    assert (holder.name, holder.team, holder.health) == ("train", "vision", "ok")
    assert (nodes.name, nodes.rack, nodes.gpus) == (["node-a"], ["r1"], [8])
    assert (nodes.state, nodes.reason) == (["cordoned"], ["by hand"])


def test_what_was_said_last_counts_and_what_was_said_long_ago_does_not() -> None:
    values = np.full((2, 240), np.nan, np.float32)
    values[0, -3] = 0.5
    values[1, 0] = 0.5
    kept = KeptScene()
    telemetry = Telemetry([place(0), place(1)], np.arange(240), {Figure.UTILIZATION: values})
    kept.take(Scene(NOW_MS, telemetry, []), Changes())
    values[0, -3] = 0.9  # the window is written over; what was taken stays
    answer = fleet_answer(seen(kept, [gpu(0), gpu(1)]))
    assert answer.gpus.utilization[0] == 0.5
    assert np.isnan(answer.gpus.utilization[1] or 0.0)  # NaN is null in JSON


def test_findings_are_those_of_the_gpu_or_of_its_node_the_gravest_first() -> None:
    kept = looked([place(0), place(1), place(0, "node-b")])
    findings = (
        found(Severity.WARNING, "node-a is hot", node="node-a", cluster="lab"),
        found(Severity.CRITICAL, "Xid 48", node="node-a", gpu="GPU-node-a-1"),
        found(Severity.CRITICAL, "it stalls", workload=TRAIN),
        found(Severity.CRITICAL, "of another cluster", node="node-b", cluster="elsewhere"),
    )
    answer = fleet_answer(seen(kept, [gpu(0), gpu(1), gpu(0, "node-b")], findings=findings))
    assert answer.gpus.health == ["warning", "critical", "ok"]
    told = [None if at is None else answer.findings[at].text for at in answer.gpus.finding]
    assert told == ["node-a is hot", "Xid 48", None]
    assert [one.text for one in answer.findings][-1] == "node-a is hot"


def test_a_job_that_hangs_on_a_gpu_makes_it_worth_a_look_and_not_broken() -> None:
    hang = found(Severity.CRITICAL, "it hangs", node="node-a", gpu="GPU-node-a-0", workload=TRAIN)
    hang = replace(hang, finding=replace(hang.finding, kind=FindingKind.HANG, code="D002"))
    own = found(Severity.WARNING, "Xid 31", node="node-a", gpu="GPU-node-a-2")
    own = replace(own, finding=replace(own.finding, cause="xid-31"))  # a program's fault
    fault = found(Severity.CRITICAL, "Xid 48", node="node-a", gpu="GPU-node-a-1")
    kept = looked([place(0), place(1), place(2)])
    answer = fleet_answer(seen(kept, [gpu(0), gpu(1), gpu(2)], findings=(hang, fault, own)))
    assert answer.gpus.health == ["info", "critical", "info"]
    told = [(one.text, one.of_job) for one in answer.findings]
    assert told == [("Xid 48", False), ("it hangs", True), ("Xid 31", True)]
    assert answer.findings[1].id == hang.key.id, "by which its page is found"


def test_a_fault_that_nothing_shows_to_be_mended_is_told_when_its_finding_is_over() -> None:
    kept, gpus = looked([place(0), place(1)]), [gpu(0), gpu(1)]
    old = found(Severity.CRITICAL, "it fell off, and is not mended", node="node-a", gpu="GPU-node-a-1")
    elsewhere = found(Severity.CRITICAL, "of somebody else", node="node-z", gpu="GPU-node-z-0")
    faults = {GpuUuid(one.finding.subject.gpu or ""): one.finding for one in (old, elsewhere)}
    answer = fleet_answer(seen(kept, gpus, faults=faults))
    assert answer.gpus.health == ["ok", "critical"]
    assert [one.text for one in answer.findings] == ["it fell off, and is not mended"]
    lasting = found(Severity.CRITICAL, "Xid 79, now", node="node-a", gpu="GPU-node-a-1")
    answer = fleet_answer(seen(kept, gpus, findings=(lasting,), faults=faults))
    assert [one.text for one in answer.findings] == ["Xid 79, now"], "told once"


def test_what_is_missing_is_on_the_map_and_called_by_how_it_is_missing() -> None:
    kept = looked([place(0), place(1), place(2)])
    lost = SilentGpu(gpu(1), NOW_MS - 60_000)
    nodes = (NodeGpus("lab", "node-a", 4, 1, 2, (lost,)), NodeGpus("lab", "node-b", 2, 0, None, ()))
    held = tuple(GpuBinding(gpu(number).key, POD, "main", None, ()) for number in (1, 2))
    answer = fleet_answer(seen(kept, [gpu(0)], nodes=nodes, held=held))
    rows = [*zip(answer.gpus.state, answer.gpus.uuid, answer.gpus.health, strict=True)]
    assert rows == [
        ("reporting", "GPU-node-a-0", "ok"),
        ("lost", "GPU-node-a-1", "critical"),
        ("silent", "GPU-node-a-2", "warning"),
        ("lost", None, "critical"),
        ("blind", None, "unknown"),
        ("blind", None, "unknown"),
    ]
    assert answer.nodes.gpus == [4, 2]


def test_one_that_left_and_that_nobody_misses_is_not_shown() -> None:
    assert fleet_answer(seen(looked([place(0), place(1)]), [gpu(0)])).gpus.uuid == ["GPU-node-a-0"]


def test_an_answer_is_made_once_for_all_who_ask_within_a_moment() -> None:
    made: list[int] = []
    now_s = [0.0]

    def make(_guard: QueryGuard) -> bytes:
        made.append(1)
        return b"x" * 2_000

    shared = SharedAnswer(make, Api().questions, lambda: now_s[0])
    plain = shared._body(QueryGuard(), gzip=False)
    packed = shared._body(QueryGuard(), gzip=True)
    assert (plain, len(made)) == ((b"x" * 2_000, False), 1)
    assert packed[1]
    assert len(packed[0]) < 2_000
    now_s[0] += LASTS_S + 0.1
    shared._body(QueryGuard(), gzip=True)
    assert len(made) == 2


def settled(questions: Questions) -> None:
    while questions.runner.running:
        time.sleep(0.01)


def test_who_asks_after_a_look_does_not_wait_for_the_answer() -> None:
    now_s, questions = [0.0], Api().questions
    made: list[float] = []

    def make(_guard: QueryGuard) -> bytes:
        made.append(now_s[0])
        return b"%d" % len(made) * 2_000

    def told(*headers: tuple[bytes, bytes]) -> bytes:
        request = Request({"type": "http", "headers": list(headers)})
        return asyncio.run(shared.answer(request)).body[:1]  # type: ignore[return-value]

    shared = SharedAnswer(make, questions, lambda: now_s[0])
    shared.looked()  # before anybody has asked
    settled(questions)
    assert (told(), told((b"accept-encoding", b"gzip")), made) == (b"1", b"\x1f", [0.0])
    now_s[0] = FRESH_S + 1  # no look since: told once more, while the next one is made
    assert told() == b"1"
    settled(questions)
    assert (told(), len(made)) == (b"2", 2)
    now_s[0] += 5
    shared.looked()  # somebody watches
    settled(questions)
    assert len(made) == 3
    now_s[0] += 40
    shared.looked()  # nobody has for a while: it is made seldom
    settled(questions)
    now_s[0] += 5
    shared.looked()
    settled(questions)
    assert len(made) == 4
    now_s[0] += 40
    shared.looked(for_nobody=False)
    settled(questions)
    assert len(made) == 4
    told()
    settled(questions)  # it was old, so one is made now
    now_s[0] += 5
    shared.looked(for_nobody=False)
    settled(questions)
    assert made[-1] == now_s[0], "while somebody watches it is made all the same"


def test_a_look_while_an_answer_is_made_is_in_the_next_one() -> None:
    now_s, questions, fleet = [0.0], Api().questions, ["before"]
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    made: list[str] = []

    def make(_guard: QueryGuard) -> bytes:
        made.append(fleet[0])
        begun.release()
        assert go_on.acquire(timeout=60)
        return made[-1].encode()

    def told() -> object:
        return asyncio.run(shared.answer(Request({"type": "http", "headers": []}))).body

    shared = SharedAnswer(make, questions, lambda: now_s[0])
    shared.looked()
    assert begun.acquire(timeout=60)
    fleet[0] = "after"
    for _ in range(3):
        shared.looked()
    go_on.release()
    assert begun.acquire(timeout=60), "it is made once more"
    assert told() == b"before", "for which nobody waits"
    go_on.release()
    settled(questions)
    assert (told(), made) == (b"after", ["before", "after"])


def test_an_answer_that_takes_long_is_not_made_all_the_time() -> None:
    now_s, questions = [0.0], Api().questions
    made: list[float] = []

    def make(_guard: QueryGuard) -> bytes:
        made.append(now_s[0])
        now_s[0] += LASTS_S + 1
        shared.looked()
        return b""

    shared = SharedAnswer(make, questions, lambda: now_s[0])
    shared.looked()
    settled(questions)
    assert made == [0.0], "the next look has the next one made"
    now_s[0] += 60
    shared.looked()
    settled(questions)
    assert len(made) == 2


def test_machines_are_asked_seldom() -> None:
    asked: list[int] = []
    now_s = [0.0]
    machines = KnownMachines(SimpleNamespace(unfinished=lambda: asked.append(1) or []), lambda: now_s[0])
    for _ in range(3):
        machines.lasting(QueryGuard())
    now_s[0] += 60
    machines.lasting(QueryGuard())
    assert len(asked) == 2


class Curves:
    """A server that knows one curve, or none."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: SourceError | None = None

    async def matrix(self, query: str, times: Times, _labels: tuple[str, ...]) -> Matrix:
        self.asked.append(query)
        if self.error is not None:
            raise self.error
        values = np.full((1, times.moments), 50.0) if "GPU_UTIL" in query else np.zeros((0, times.moments))
        return Matrix([()] * len(values), values)


class Asked:
    """The pages over HTTP, above records in a real engine: GPU-1 was train's from minute 0 to 10."""

    def __init__(self, url: str, kept: KeptScene, curves: Curves) -> None:
        self._url, self.kept, self.curves = url, kept, curves

    def __call__(self, path: str, **params: str) -> httpx.Response:
        return httpx.get(f"{self._url}{path}", params=params)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder: Path = tmp_path_factory.mktemp("records")
    with some_records(folder):
        pass
    with Engine.open(folder) as engine:
        writer = RecordWriter(engine)
        gpus, events = GpuRecords(engine, writer), EventRecords(engine, writer)
        one = Gpu(GpuKey(GpuUuid("GPU-1")), "lab", "node-a", "0", H100)
        gpus.gpu(GpuInterval(one, minute(-60), minute(20)))
        gpus.gpu(GpuInterval(one, minute(25), None))
        pod = PodKey("lab", "ml", "train-1", "uid-train-1-0")
        binding = GpuBinding(one.key, pod, "main", Fraction(1, 2), (ClaimSource.DCGM,), 1)
        gpus.binding(BindingInterval(binding, minute(0), minute(10)))
        for number, (uuid, index) in enumerate([("GPU-1", 0), (None, 0), ("GPU-2", 1), (None, 1)]):
            fault = EventRecord(
                "node-a", f"e{number}", minute(20), EventKind.XID, 79, "NVRM", "off the bus", "node-out",
                GpuUuid(uuid) if uuid else None, index, None, None, None, None, number=number,
            )  # fmt: skip
            events.event(fault)
        writer.close()
        findings = MemoryFindings()
        hot = found(Severity.WARNING, "too hot", node="node-a", gpu="GPU-1")
        findings.put([replace(hot, finding=replace(hot.finding, onset_ms=minute(5)), ended_ms=minute(8))])
        findings.put([found(Severity.WARNING, "another", gpu="GPU-2")])
        hour_ms = minute(0)
        stalled = row(hour_ms, Holder(), Bucket.STALLED, gpus=2, ms=HOUR_MS // 4)
        book = MemoryBook(hour(hour_ms, [stalled[0]._replace(gpu="GPU-1"), stalled[1]]))
        api, kept, curves = Api(), KeptScene(), Curves()
        bindings: Any = SimpleNamespace(now=GpusNow(gpus={one.key: one}), held=())
        workloads = WorkloadRecords(engine, writer)
        nothing: Any = SimpleNamespace(unfinished=list)
        pages = (
            FleetApi(
                kept,
                bindings,
                NoFaults(),
                KnownMachines(nothing),
                workloads,
                DetectionState,
                list,
                None,
                api.questions,
            ),
            GpuLifeApi(gpus, workloads, events, findings, book, curves, bindings, api.questions),
        )
        with running(build_app(replace(api.parts(), pages=PageApis(pages)))) as url:
            yield Asked(url, kept, curves)


def test_the_map_before_the_first_look(ask: Asked) -> None:
    answer = ask("/api/fleet").json()
    assert answer["data"]["at_ms"] is None
    assert answer["data"]["gpus"]["uuid"] == ["GPU-1"]
    assert answer["warnings"] == ["nothing was looked at yet: the server has only just begun"]


def life(ask: Asked, uuid: str = "GPU-1") -> httpx.Response:
    return ask(f"/api/gpus/{uuid}/life", **{"from": str(minute(-30) / 1000), "to": str(minute(30) / 1000)})


def test_one_life(ask: Asked) -> None:
    told = life(ask).json()["data"]
    assert (told["node"], told["number"], told["model"], told["state"]) == ("node-a", "0", H100, "reporting")
    assert told["first_seen_ms"] == minute(-60)
    (held,) = told["held"]
    assert (held["workload"]["name"], held["rank"], held["share"]) == ("train", 1, "1/2")
    assert (held["from_ms"], held["to_ms"]) == (minute(0), minute(10))
    spans = [(one["from_ms"], one["to_ms"]) for one in told["reporting"]]
    assert spans == [(minute(-60), minute(20)), (minute(25), None)]
    assert [one["text"] for one in told["findings"]] == ["too hot"]
    (bucket,) = told["buckets"]
    assert (bucket["bucket"], bucket["gpu_ms"], told["currency"]) == ("stalled", HOUR_MS // 4, "USD")
    assert Decimal(bucket["amount"]) * 4 == Decimal(PRICE) / QUANTA_PER_UNIT


def test_faults_are_those_that_name_it_by_uuid_or_by_its_number_alone(ask: Asked) -> None:
    events = life(ask).json()["data"]["events"]
    assert [(one["code"], one["asks"]) for one in events] == [(79, "node-out")] * 2


def test_of_very_many_faults_the_latest_are_shown_and_that_is_told(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.serve.pages.gpu_life._EVENTS_SHOWN", 1)
    answer = life(ask).json()
    assert len(answer["data"]["events"]) == 1
    assert answer["warnings"] == ["only the latest 1 events are shown: a shorter span has others"]
    monkeypatch.setattr("trilens.serve.pages.gpu_life._EVENTS_SHOWN", 2)
    assert not life(ask).json().get("warnings")


def test_a_life_in_few_points(ask: Asked) -> None:
    curves = life(ask).json()["data"]["curves"]
    assert set(curves["utilization"]) == {0.5}
    assert set(curves["power_watts"]) == {None}
    assert all('"GPU-1"' in query for query in ask.curves.asked)
    for hours in (1, 12, 24 * 30):
        times = moments(0, hours * HOUR_MS)
        assert times.moments <= MOST_POINTS
        assert times.end_ms <= hours * HOUR_MS


def test_a_life_without_samples_says_why(ask: Asked) -> None:
    ask.curves.error = SourceError("no answer within 5 s")
    try:
        answer = life(ask).json()
    finally:
        ask.curves.error = None
    assert answer["warnings"] == ["what it read is not known: no answer within 5 s"]
    assert answer["data"]["held"]


@pytest.mark.parametrize("uuid", ["GPU-nobody", 'GPU-1"} or up{x="', "%3Cscript%3E"])
def test_a_gpu_that_nobody_knows(ask: Asked, uuid: str) -> None:
    before = len(ask.curves.asked)
    answer = life(ask, uuid)
    assert (answer.status_code, answer.json()["errorType"]) == (404, "not_found")
    assert uuid == "GPU-nobody" or len(ask.curves.asked) == before  # it never comes into a query
