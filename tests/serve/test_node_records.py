"""What the store has of a node: also what broke there under a job that has gone, and was not mended since."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseSubject, SubjectKind
from trilens.diagnose.walk import why
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import Gpu, GpuInterval, GpuKey
from trilens.model.life import MembershipInterval
from trilens.model.machine import Machine, MachineInterval
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.serve.cases import records as case_records
from trilens.serve.cases.gathering import Cases
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns
from trilens.serve.cases.subjects import Meant, Subjects
from trilens.serve.cases.wish import Wish
from trilens.serve.standing_faults import StandingFaults
from trilens.serve.storage import open_store
from trilens.settings.load import load_settings
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.diagnose.case_file import CaseFile
    from trilens.model.verdict import Verdict
    from trilens.store.store import Store

NOW_MS = 10_000_000
SPAN = Span(0, NOW_MS)
GONE = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
ELSEWHERE = GONE._replace(cluster="prod", uid="u2")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    settings = load_settings(overrides={"storage.data_dir": str(tmp_path)}, environ={})
    opened = open_store(settings.storage, upkeep=False)
    yield opened
    opened.close()


def _found(text: str, kind: FindingKind, workload: WorkloadKey, node: str) -> FindingInterval:
    subject = Subject(workload=workload, node=node, gpu="GPU-1")
    finding = Finding("D000", kind, subject, Severity.CRITICAL, text, NOW_MS - 9_000, text, "")
    return FindingInterval(finding, NOW_MS - 5_000, NOW_MS - 1_000)


def test_a_fault_is_the_nodes_own_though_the_job_that_had_the_gpu_has_gone(store: Store) -> None:
    store.findings.put(
        [
            _found("its GPU is lost", FindingKind.GPU_FAULT, GONE, "node-a"),
            _found("it stalls", FindingKind.STALL, GONE, "node-a"),  # where it stood is not what it is about
            _found("of another node", FindingKind.GPU_FAULT, GONE, "node-b"),
            _found("of another cluster", FindingKind.GPU_FAULT, ELSEWHERE, "node-a"),
        ]
    )
    assert store.records_settled(30)
    records = CaseRecords(store.workloads, store.gpus, store.events, store.findings)
    meant = Meant(CaseSubject(SubjectKind.NODE, "lab", "", "node-a"))
    known = records.read(meant, SPAN, None)
    found = records.findings_of(meant, known, {"node-a"}, (), SPAN, None)
    assert [one.finding.text for one in found] == ["its GPU is lost"]


LATER_MS = 1_793_750_400_000
HOUR_MS = 3_600_000
FELL_MS = LATER_MS - 5 * HOUR_MS
BROKEN, WORN = GpuUuid("GPU-1"), GpuUuid("GPU-2")


def _case(store: Store, asked: Wish | None = None) -> CaseFile:
    assert store.records_settled(30)
    nobody: Any = None
    cases = Cases(
        Subjects(store.workloads, store.gpus, lambda: [("lab", "node-a")]),
        CaseRecords(store.workloads, store.gpus, store.events, store.findings),
        CaseRuns(store.runs, store.workloads),
        *[nobody] * 6,
        StandingFaults(store.findings, store.events, store.gpus, store.machines, store.ledger),
    )
    return cases.read(asked or Wish("node/node-a", None, LATER_MS - HOUR_MS, LATER_MS), None).case


def _surest(case: CaseFile) -> Verdict:
    return why(Case(case))[0]


def _runs_there(store: Store) -> None:
    pod = PodKey("lab", "ml", "train-0", "uid-train-0")
    store.workloads.workload(Workload(GONE))
    store.workloads.membership(MembershipInterval(Membership(pod, GONE), "node-a", FELL_MS))


def _told(code: int, t_ms: int, uuid: GpuUuid | None = BROKEN, node: str = "node-a") -> EventRecord:
    id, text = f"{code}-{t_ms}", f"xid {code}"
    nobody = (None, None, None, None)
    return EventRecord(node, id, t_ms, EventKind.XID, code, text, None, None, uuid, 1, *nobody, cluster="lab")


def _fault(
    store: Store, uuid: GpuUuid, number: str, cause: str, onset_ms: int, severity: Severity, *, lasts: bool
) -> None:
    subject = Subject(cluster="lab", node="node-a", gpu=uuid, gpu_number=number)
    finding = Finding("D009", FindingKind.GPU_FAULT, subject, severity, cause, onset_ms, cause, "")
    over_ms = onset_ms + 600_000
    store.findings.put(
        [FindingInterval(finding, onset_ms, LATER_MS if lasts else over_ms, None if lasts else over_ms)]
    )


def _fell_off(store: Store, at_ms: int = FELL_MS) -> None:
    """While rows of another GPU wait for a reset since days, and a program is at fault two hours ago."""
    first_ms = LATER_MS - 200 * HOUR_MS
    store.gpus.gpu(GpuInterval(Gpu(GpuKey(BROKEN), "lab", "node-a", "1"), first_ms, at_ms))
    store.gpus.gpu(GpuInterval(Gpu(GpuKey(WORN), "lab", "node-a", "2"), first_ms, None))
    rows_ms = LATER_MS - 72 * HOUR_MS
    _fault(store, WORN, "2", "row-remap-pending", rows_ms, Severity.WARNING, lasts=True)
    _fault(store, BROKEN, "1", "xid-79", at_ms, Severity.CRITICAL, lasts=False)
    store.events.event(_told(79, at_ms))
    store.events.event(_told(13, LATER_MS - 2 * HOUR_MS, WORN))


@pytest.mark.parametrize("lately", [None, 13])
def test_a_fault_that_nothing_shows_to_be_mended_is_still_the_cause(store: Store, lately: int | None) -> None:
    """Also where the kernel has told other things since."""
    _fell_off(store)
    if lately is not None:
        store.events.event(_told(lately, LATER_MS - 600_000, WORN))
    case = _case(store)
    assert _surest(case).cause == "dead-gpu"
    assert _surest(case).subject.gpu_number == "1"
    assert "xid 79" in _surest(case).text
    assert (case.from_ms, case.to_ms) == (LATER_MS - HOUR_MS, LATER_MS)


@pytest.mark.parametrize("how", ["it reports anew", "its node is ready anew", "a day has passed"])
def test_what_is_mended_or_was_long_ago_is_not(store: Store, how: str) -> None:
    """Nor what programs of others did meanwhile."""
    _fell_off(store, LATER_MS - 96 * HOUR_MS if how == "a day has passed" else FELL_MS)
    if how == "it reports anew":
        store.gpus.gpu(GpuInterval(Gpu(GpuKey(BROKEN), "lab", "node-a", "1"), FELL_MS + HOUR_MS, None))
    if how == "its node is ready anew":
        store.machines.machine(MachineInterval(Machine("lab", "node-a"), FELL_MS + HOUR_MS, None))
    case = _case(store)
    assert _surest(case).cause == "gpu-wears-out"
    assert case.events == ()


def test_faults_that_stand_elsewhere_are_not_the_nodes(store: Store) -> None:
    for cluster, node in (("lab", "node-b"), ("prod", "node-a")):
        subject = Subject(cluster=cluster, node=node, gpu=GpuUuid(f"GPU-of-{cluster}"))
        finding = Finding(
            "D009", FindingKind.GPU_FAULT, subject, Severity.CRITICAL, "xid-79", FELL_MS, "its own", ""
        )
        store.findings.put([FindingInterval(finding, FELL_MS, FELL_MS, FELL_MS)])
    assert _case(store).findings == ()


def test_a_fault_that_lasts_is_told_once(store: Store) -> None:
    _fell_off(store)
    _fault(store, BROKEN, "1", "xid-79", FELL_MS, Severity.CRITICAL, lasts=True)
    causes = [one.finding.cause for one in _case(store).findings]
    assert sorted(causes) == ["row-remap-pending", "xid-79"]


def test_the_time_that_was_wished_is_obeyed(store: Store) -> None:
    _fell_off(store)
    short = _case(store, Wish("node/node-a", None, LATER_MS - 60_000, LATER_MS))
    assert (short.from_ms, short.events) == (LATER_MS - 60_000, ())
    long = _case(store, Wish("node/node-a", None, FELL_MS - 60_000, LATER_MS))
    assert [one.code for one in long.events] == [79, 13]
    assert [one.finding.cause for one in long.findings] == ["row-remap-pending", "xid-79"]


def test_a_large_fleet_leaves_room_for_the_faults_of_a_node(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case_records, "_MOST_EVENTS", 3)
    _runs_there(store)
    at_ms = LATER_MS - 600_000
    store.events.event(_told(79, at_ms))
    hit = (Victim("ml", "train-0", "uid-train-0"),)
    store.events.event(replace(_told(31, at_ms + 1, None, ""), victims=hit))  # nobody told of which node
    for number in range(9):
        store.events.event(_told(13, at_ms + 9 + number, None, "node-b"))
    case = _case(store)
    assert ([one.code for one in case.events], case.missing) == ([79, 31], ())


@pytest.mark.parametrize("limit", ["_MOST_EVENTS", "_KEPT_EVENTS"])
@pytest.mark.parametrize("asked", ["node/node-a", "train"])
def test_what_was_cut_off_is_told_as_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str, asked: str
) -> None:
    monkeypatch.setattr(case_records, limit, 3)
    _runs_there(store)
    for number in range(4):
        store.events.event(_told(79, LATER_MS - 600_000 + number))
    case = _case(store, Wish(asked, None, LATER_MS - HOUR_MS, LATER_MS))
    assert [one.what for one in case.missing] == ["events before the latest 3 that were looked at"]
    assert [one.t_ms for one in case.events] == [LATER_MS - 600_000 + number for number in (1, 2, 3)]
