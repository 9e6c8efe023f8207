"""What a span of time is booked from: all that overlaps it, whole, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from sizes import tables_alone_and_on_a_cluster

from ledger_nights import holder, hour, row
from run_records import RUN, position, process, step
from trilens.ledger.allocation.hour_facts import facts_of, lives_around
from trilens.model.event import EventKind, EventRecord
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.imported import ImportedJob, UsagePoint
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.ledger_facts import FoundStall
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.model.run import CheckpointRecord, Ending, RunFacts, RunId, ValidationRecord
from trilens.model.run_commit import RunCommit
from trilens.model.workload import Doubt, GpuUuid, Membership, PodKey, WorkloadKey
from trilens.store.events import EventRecords
from trilens.store.findings import FindingRecords
from trilens.store.gpus import GpuRecords
from trilens.store.imports import ImportRecords
from trilens.store.ledger import Ledger
from trilens.store.ledger_facts import LedgerFacts
from trilens.store.machines import MachineRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.runs import RunRecords
from trilens.store.workloads import WorkloadRecords

if TYPE_CHECKING:
    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_facts import Facts
    from trilens.model.run import RankProcess
    from trilens.store.engine import Engine

pytestmark = tables_alone_and_on_a_cluster

NOON_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z
TRAIN = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
DOUBTS = (Doubt("owner-gone", "it's gone"),)


def at(hours: float) -> int:
    """After noon."""
    return NOON_MS + round(hours * HOUR_MS)


# When an interval begins and ends, and whether it overlaps the hour from noon on.
SPANS = {
    "inside": (0.2, 0.8, True),
    "around": (-2, 3, True),
    "into": (-2, 0.5, True),
    "out of": (0.5, 3, True),
    "lasts": (-2, None, True),
    "begins": (0.9, None, True),
    "exactly": (0, 1, True),
    "until it begins": (-1, 0, False),
    "when it ends": (1, 2, False),
    "before": (-3, -2, False),
    "after": (2, None, False),
}


def gpu(name: str) -> GpuKey:
    return GpuKey(GpuUuid(f"GPU-{name}"))


def pod(name: str) -> PodKey:
    return PodKey("lab", "ml", name, f"uid of {name}")


def fault(hours: float, kind: EventKind = EventKind.XID) -> EventRecord:
    id_ = f"{kind} {hours}"
    return EventRecord(
        "n1", id_, at(hours), kind, 79, "gone", None, None, GpuUuid("GPU-a"), 0, None, None, None, None
    )


FAULTS = [fault(-25), fault(-23), fault(0.5), fault(0.7, EventKind.WARNING), fault(1)]


def machine(name: str) -> Machine:
    """What nobody tells of is not made up."""
    state = MachineState.CORDONED if name == "around" else MachineState.READY
    cpus, memory = (191.5, 2 << 40) if name == "around" else (None, None)
    return Machine("lab", name, "p5", "eu", "eu-1", "spot", "aws", "H100", 8, cpus, memory, None, state, "x")


def held(name: str) -> GpuBinding:
    return GpuBinding(
        gpu(name), pod(name), "main", Fraction(1, 7), (ClaimSource.KUBELET, ClaimSource.DCGM), 3, 1, DOUBTS
    )


def member(name: str) -> Membership:
    return Membership(pod(name), TRAIN, 1, "worker", None, 0, DOUBTS)


def life(name: str, from_ms: int, to_ms: int | None, pod: str | None = None) -> RankProcess:
    ending = None if to_ms is None else Ending.FAILED
    uid = None if pod is None else f"uid of {pod}"
    told = {"pid": 7, "gpus": ("GPU-1",), "node": "n1", "local_rank": 2, "pod": pod, "pod_uid": uid}
    return process(run=RunId(name), started_ms=from_ms, ended_ms=to_ms, ending=ending, **told)


AHEAD_MS = 90_000  # the clock of RUN's only rank
LIVES = [
    life("ended", at(-1.5), at(-0.5), pod="around"),
    life("gone", at(-3), at(-2.5), pod="before"),
    process(started_ms=at(-4) + AHEAD_MS, clock_offset_us=-AHEAD_MS * 1000),
]


def saved(n: int, path: str, hours: float, minutes: float | None) -> CheckpointRecord:
    us = None if minutes is None else round(minutes * 60_000_000)
    return CheckpointRecord(RUN, n, 0, 0, n, path, at(hours) + AHEAD_MS, duration_us=us)


CHECKPOINTS = [
    saved(0, "before", -0.5, 10),
    saved(1, "across", -0.01, 10),
    saved(2, "inside", 0.5, 1),
    saved(3, "without length", 0.6, None),
    saved(4, "after", 1, 1),
]
VALIDATIONS = [
    ValidationRecord(RUN, n, 0, 0, n, at(hours) + AHEAD_MS, 1_000_000, {"loss": 1.0})
    for n, hours in enumerate((-0.1, 0.7, 1.5))
]


def stall(name: str) -> FindingInterval:
    begin, end, _ = SPANS[name]
    subject, last_ms = Subject(run=RunId(name)), at(9 if end is None else end)
    found = Finding("D001", FindingKind.STALL, subject, Severity.CRITICAL, "", at(begin), "stands", "look")
    return FindingInterval(found, at(begin) + 1, last_ms, None if end is None else last_ms)


@pytest.fixture(scope="module")
def runs(tables: Engine) -> RunRecords:
    return RunRecords(tables)


@pytest.fixture(scope="module")
def ledger(tables: Engine) -> Ledger:
    return Ledger(tables)


@pytest.fixture(scope="module")
def source(tables: Engine, runs: RunRecords, ledger: Ledger) -> LedgerFacts:
    """Told of each span in every kind of record."""
    writer, imports = RecordWriter(tables), ImportRecords(tables)
    workloads, gpus = WorkloadRecords(tables, writer), GpuRecords(tables, writer)
    machines, events = MachineRecords(tables, writer), EventRecords(tables, writer)
    told = RunCommit(processes=[*LIVES], checkpoints=CHECKPOINTS, validations=VALIDATIONS)
    jobs, usage = [], []
    for attempt, (name, (begin, end, _)) in enumerate(SPANS.items()):
        from_ms, to_ms = at(begin), None if end is None else at(end)
        machines.machine(MachineInterval(machine(name), from_ms, to_ms))
        gpus.gpu(GpuInterval(Gpu(gpu(name), "lab", name, "0", "H100"), from_ms, to_ms))
        gpus.binding(BindingInterval(held(name), from_ms, to_ms))
        workloads.membership(MembershipInterval(member(name), name, from_ms, to_ms))
        workloads.phase(PhaseInterval(TRAIN, attempt, Phase.RUNNING, name, from_ms, to_ms))
        told.facts.append(RunFacts(RunId(name), from_ms, "lr", config={"long": "x"}))
        told.processes.append(life(name, from_ms, to_ms))
        end_ms = at(9) if to_ms is None else to_ms
        jobs.append(ImportedJob("old", "lab", name, None, from_ms, end_ms, Fraction(1, 2)))
        usage.append(UsagePoint("old", name, from_ms, end_ms - from_ms, Fraction(3), None))
    runs.commit(told)
    imports.put_jobs(jobs)
    imports.put_usage(usage)
    for one in FAULTS:
        events.event(one)
    FindingRecords(tables, writer).put([stall(name) for name in SPANS])
    writer.close()
    return LedgerFacts(tables, runs, machines, imports, ledger)


@pytest.fixture(scope="module")
def facts(source: LedgerFacts) -> Facts:
    return source.facts(at(0), at(1))


OVERLAPPING = {name for name, (_, _, overlaps) in SPANS.items() if overlaps}


def test_what_overlaps_the_span_is_there_and_nothing_else(facts: Facts) -> None:
    found = {
        "machines": {one.machine.node for one in facts.machines},
        "gpus": {one.gpu.node for one in facts.gpus},
        "bindings": {one.binding.pod.name for one in facts.bindings},
        "members": {one.node for one in facts.members},
        "phases": {one.reason for one in facts.phases},
        "jobs": {one.job for one in facts.jobs},
        "usage": {one.cluster for one in facts.usage},
        "lives": {one.run for one in facts.lives if one.run in SPANS},
        "stalls": {one.run for one in facts.stalls},
    }
    assert found == dict.fromkeys(found, OVERLAPPING)
    assert facts.runs.keys() >= OVERLAPPING
    assert (facts.from_ms, facts.to_ms) == (at(0), at(1))


def test_it_is_whole(facts: Facts) -> None:
    """Who reads it clips it."""
    begin, end, _ = SPANS["around"]
    from_ms, to_ms = at(begin), at(end or 0)
    assert MachineInterval(machine("around"), from_ms, to_ms) in facts.machines
    assert BindingInterval(held("around"), from_ms, to_ms) in facts.bindings
    assert MembershipInterval(member("around"), "around", from_ms, to_ms) in facts.members
    assert BindingInterval(held("lasts"), at(-2), None) in facts.bindings
    assert life("around", from_ms, to_ms) in facts.lives
    assert ImportedJob("old", "lab", "around", None, from_ms, to_ms, Fraction(1, 2)) in facts.jobs
    assert UsagePoint("old", "around", from_ms, to_ms - from_ms, Fraction(3), None) in facts.usage
    assert FoundStall(RunId("around"), from_ms, to_ms) in facts.stalls
    assert FoundStall(RunId("lasts"), at(-2), at(9) + 60_000) in facts.stalls
    assert facts.runs[RunId("around")] == RunFacts(RunId("around"), from_ms, "lr")


def test_the_clusters_of_machines(source: LedgerFacts, tables: Engine) -> None:
    writer = RecordWriter(tables)
    assert MachineRecords(tables, writer).clusters() == ["lab"]
    writer.close()


def test_faults_of_a_day_before(facts: Facts) -> None:
    assert list(facts.faults) == [FAULTS[1], FAULTS[2]]


def worked_on(gpu: str, hours: float, bucket: Bucket, **more: Any) -> LedgerHour:
    own = [one._replace(gpu=gpu) for one in row(at(hours), holder("train", None), bucket, **more)]
    return hour(at(hours), own)


def test_hours_in_which_a_gpu_with_a_fault_worked(source: LedgerFacts, ledger: Ledger) -> None:
    """As they are booked, if for longer than a moment, and told by some signal."""
    for number, (bucket, more) in enumerate(
        [
            (Bucket.RECOMPUTE, {}),
            (Bucket.STALLED, {}),
            (Bucket.PRODUCTIVE, {"ms": 60_000}),
            (Bucket.PRODUCTIVE, {"basis": Basis.NONE}),
            (Bucket.PRODUCTIVE, {"basis": Basis.GPU}),
        ]
    ):
        ledger.write(worked_on("GPU-a", number - 5, bucket, **more))
    assert source.facts(at(0), at(1)).worked == {"GPU-a": [at(-5), at(-1)]}
    ledger.write(worked_on("GPU-a", -1, Bucket.STALLED))
    assert source.facts(at(0), at(1)).worked == {"GPU-a": [at(-5)]}, "what was booked before is wrong"


def test_hours_in_which_a_gpu_worked_whose_fault_has_only_its_number(
    source: LedgerFacts, ledger: Ledger, tables: Engine
) -> None:
    writer = RecordWriter(tables)
    EventRecords(tables, writer).event(replace(fault(-0.5), node="around", uuid=None, gpu=0))
    writer.close()
    ledger.write(worked_on("GPU-around", -6, Bucket.PRODUCTIVE))
    assert source.facts(at(0), at(1)).worked["GPU-around"] == [at(-6)]


def test_a_life_that_ended_in_a_pod_that_still_holds_a_gpu(facts: Facts) -> None:
    found = {(one.run, one.attempt) for one in facts.lives}
    assert ("ended", 0) in found
    assert ("gone", 0) not in found


def test_checkpoints_and_validations_by_the_clock_of_rank_0(facts: Facts) -> None:
    assert [(one.path, one.start_ms) for one in facts.checkpoints] == [
        ("across", at(-0.01)),
        ("inside", at(0.5)),
        ("without length", at(0.6)),
    ]
    assert [(one.n, one.t_ms) for one in facts.validations] == [(1, at(0.7))]


def test_an_hour_out_of_a_longer_time_is_what_the_hour_alone_reads(source: LedgerFacts, facts: Facts) -> None:
    long = facts_of(source.facts(at(-3), at(3)), at(0), at(1))
    alone = facts_of(facts, at(0), at(1))
    for name in ("machines", "gpus", "bindings", "members", "phases", "lives", "checkpoints", "validations"):
        assert list(getattr(long, name)) == list(getattr(alone, name)), name
    around = lives_around(source.facts(at(-3), at(3)).lives, at(0), at(1))
    assert {one.run for one in around} >= {one.run for one in facts.lives}


def test_a_life_that_begins_soon_in_a_pod_that_holds_a_gpu(source: LedgerFacts) -> None:
    found = {one.run for one in source.facts(at(-2), at(-1.9)).lives}
    assert "ended" in found  # it begins at -1.5


def test_when_the_first_fact_is(source: LedgerFacts) -> None:
    assert source.first_ms() == at(-3)


def test_a_run_as_a_whole(source: LedgerFacts) -> None:
    history = source.histories([RUN])[RUN]
    assert [one.rank for one in history.processes] == [0]
    assert [one.path for one in history.checkpoints] == [
        "before",
        "across",
        "inside",
        "without length",
        "after",
    ]
    assert list(history.spans) == []


def test_hours_of_records_that_came_in(source: LedgerFacts, runs: RunRecords) -> None:
    assert source.late_hours(0) == (0, {})
    ends = at(0) * 1000
    runs.commit(RunCommit(steps=[step(1, start_us=ends - 10, duration_us=9)], positions=[position(1)]))
    first = source.late_hours(0)
    assert list(first.commits) == [at(-1)]
    late = [step(2, start_us=ends - 10, duration_us=10), step(3, start_us=ends - 20, duration_us=10)]
    runs.commit(RunCommit(steps=late, positions=[position(2)]))
    second = source.late_hours(first.upto)
    assert second.commits == {at(-1): second.upto, at(0): second.upto}
    assert second.upto > first.upto
    assert source.late_hours(second.upto) == (second.upto, {})
