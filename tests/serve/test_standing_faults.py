"""Faults of GPUs that nothing shows to be mended, from records in a real engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from scenes import START_MS, Story
from trilens.detect.watch import Changes
from trilens.model.event import EventKind, EventRecord
from trilens.model.finding import FindingKind, Severity, Subject
from trilens.model.gpu import Gpu, GpuInterval, GpuKey
from trilens.model.incident import Incident, IncidentState, Symptom, SymptomKind
from trilens.model.ledger_facts import WORKS_MS
from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.model.workload import GpuUuid
from trilens.serve.standing_faults import StandingFaults
from trilens.store.engine import Engine
from trilens.store.events import EventRecords
from trilens.store.gpus import GpuRecords
from trilens.store.machines import MachineRecords
from trilens.store.migrations import migrate
from trilens.store.record_writer import RecordWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.detect.scene import Scene

HOUR_MS = 3_600_000
FAULT_MS = START_MS + 600_000
NOW_MS = FAULT_MS + HOUR_MS
UUID = GpuUuid("GPU-train-2")  # of rank 2 of a story
XID = EventRecord(
    "node-0",
    "line-1",
    FAULT_MS,
    EventKind.XID,
    79,
    "fallen off",
    "off",
    "node-out",
    UUID,
    2,
    *[None] * 4,
    cluster="c1",
)


class Known:
    """What the store has, and which incidents are open."""

    def __init__(self, engine: Engine) -> None:
        self.writer = RecordWriter(engine)
        self.events = EventRecords(engine, self.writer)
        self.gpus = GpuRecords(engine, self.writer)
        self.machines = MachineRecords(engine, self.writer)
        self.incidents: list[Incident] = []
        self.faults = StandingFaults(self.events, self.gpus, self.machines, lambda: self.incidents)
        self.reports_since(START_MS)

    def xid(self, **changed: Any) -> None:
        self.events.event(replace(XID, **changed))

    def reports_since(self, from_ms: int) -> None:
        self.gpus.gpu(GpuInterval(Gpu(GpuKey(UUID), "c1", "node-0", "2"), from_ms, None))

    def ready_since(self, from_ms: int) -> None:
        self.machines.machine(
            MachineInterval(Machine("c1", "node-0", state=MachineState.READY), from_ms, None)
        )

    def symptom(self, kind: SymptomKind, name: str, **changed: Any) -> None:
        where = Subject(cluster="c1", node="node-0", gpu=UUID, gpu_number="2", team="vision")
        symptom = Symptom(kind, "k", name, where, Severity.CRITICAL, FAULT_MS, "It is so.", "Do it.")
        incident = Incident(
            "i",
            IncidentState.OPEN,
            Severity.CRITICAL,
            "",
            where,
            (),
            (replace(symptom, **changed),),
            (),
            FAULT_MS,
            FAULT_MS,
        )
        self.incidents.append(incident)

    def standing(self, now_ms: int = NOW_MS) -> dict[str, tuple[str, int]]:
        assert self.writer.settled(60)
        return {uuid: (one.cause, one.onset_ms) for uuid, one in self.faults.at(now_ms).items()}


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Known]:
    with Engine.open(tmp_path) as engine:
        migrate(engine)
        known = Known(engine)
        yield known
        known.writer.close()


FELL_OFF = {UUID: ("xid-79", FAULT_MS)}


def test_an_xid_that_asks_for_a_reset_or_more_stands_when_its_finding_is_long_over(known: Known) -> None:
    known.xid()
    known.xid(id="line-2", t_ms=FAULT_MS + 9, code=48)
    known.xid(id="line-3", uuid=GpuUuid("GPU-train-3"), code=31)  # a program's
    assert known.standing() == FELL_OFF, "the first: what came after it followed"
    fault = known.faults.at(NOW_MS)[UUID]
    assert (fault.kind, fault.severity) == (FindingKind.GPU_FAULT, Severity.CRITICAL)
    assert fault.text.startswith("GPU 2 of node-0 has a fault, and nothing shows that it is mended: Xid 79, ")
    assert fault.action


def test_after_a_day_nobody_knows(known: Known) -> None:
    known.xid()
    assert known.standing(FAULT_MS + 24 * HOUR_MS - 1) == FELL_OFF
    assert known.standing(FAULT_MS + 24 * HOUR_MS + 1) == {}


def test_a_gpu_that_reports_anew_is_back_until_its_next_fault(known: Known) -> None:
    known.xid()
    known.reports_since(FAULT_MS + 60_000)
    assert known.standing() == {}
    known.xid(id="line-2", t_ms=FAULT_MS + 120_000, code=95)
    assert known.standing() == {UUID: ("xid-95", FAULT_MS + 120_000)}


@pytest.mark.parametrize(("after_ms", "expected"), [(-1, FELL_OFF), (1, {})])
def test_a_gpu_whose_node_is_ready_anew_is_back(
    known: Known, after_ms: int, expected: dict[str, tuple[str, int]]
) -> None:
    known.xid()
    known.ready_since(FAULT_MS + after_ms)
    assert known.standing() == expected


def scene_at(s: float) -> Scene:
    """A step takes two seconds: the last ended that long before at the most."""
    return Story(ranks=4, seconds=1_200, name="train").scene(s)


def test_a_gpu_on_which_a_program_goes_on_working_is_back(known: Known) -> None:
    known.xid()
    about = (FAULT_MS - START_MS) / 1000
    known.faults.take(scene_at(about + WORKS_MS / 1000 - 3), Changes())
    assert known.standing() == FELL_OFF, "the last step of a program that is about to fail is no work"
    known.faults.take(scene_at(about + WORKS_MS / 1000 + 5), Changes())
    assert known.standing() == {}


def test_work_is_remembered_of_gpus_whose_job_is_over_for_a_day(known: Known) -> None:
    known.xid()
    worked = scene_at((FAULT_MS - START_MS) / 1000 + 200)
    known.faults.take(worked, Changes())
    known.faults.take(replace(worked, jobs=[], now_ms=NOW_MS), Changes())
    assert known.standing() == {}
    known.faults.take(replace(worked, jobs=[], now_ms=NOW_MS + 25 * HOUR_MS), Changes())
    assert known.standing() == FELL_OFF, "what is a day old leaves memory"


def test_where_no_agent_reads_kernels_a_finding_has_told_it(known: Known) -> None:
    known.symptom(SymptomKind.FINDING, "D009", labels=(("cause", "xid-79"),), ended_ms=FAULT_MS + 300_000)
    assert known.standing() == FELL_OFF
    (fault,) = known.faults.at(NOW_MS).values()
    assert fault.subject.team is None, "a GPU is nobody's"


@pytest.mark.parametrize("cause", ["xid-31", "sxid-20034", "nvlink", "xid-", "xid-99999", ""])
def test_findings_of_other_troubles_break_no_gpu(known: Known, cause: str) -> None:
    known.symptom(SymptomKind.FINDING, "D009", labels=(("cause", cause),))
    assert known.standing() == {}


def test_an_alert_that_lasts_stands_whatever_works_and_ends_with_it(known: Known) -> None:
    known.symptom(SymptomKind.ALERT, "GpuRowRemapFailed", labels=(("alertname", "GpuRowRemapFailed"),))
    known.reports_since(FAULT_MS + 60_000)
    assert known.standing() == {UUID: ("GpuRowRemapFailed", FAULT_MS)}
    (lasting,) = known.incidents
    known.incidents[:] = [replace(lasting, symptoms=(replace(lasting.symptoms[0], ended_ms=NOW_MS),))]
    assert known.standing() == {}


def test_an_alert_that_wakes_nobody_breaks_no_gpu(known: Known) -> None:
    labels = (("alertname", "GpuRowRemapFailed"),)
    known.symptom(SymptomKind.ALERT, "GpuRowRemapFailed", labels=labels, severity=Severity.WARNING)
    known.symptom(SymptomKind.ALERT, "GpuHot", labels=(("alertname", "GpuHot"),))
    assert known.standing() == {}
