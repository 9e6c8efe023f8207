"""Faults of GPUs that nothing shows to be mended, from records of a real store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ledger_nights import PRICE, holder, hour, row
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import Evidence, Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import Gpu, GpuInterval, GpuKey
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.model.workload import GpuUuid, WorkloadKey
from trilens.serve.standing_faults import StandingFaults
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NIGHT_MS = 1_793_750_400_000
FAULT_MS = NIGHT_MS + 600_000
NOW_MS = FAULT_MS + 5 * HOUR_MS
UUID = GpuUuid("GPU-2")
TRAIN = WorkloadKey("c1", "ml", "kubeflow.org", "PyTorchJob", "train", "u1")
FAULT = Finding(
    "D009",
    FindingKind.GPU_FAULT,
    Subject(TRAIN, "vision", rank=3, cluster="c1", node="node-0", gpu=UUID, gpu_number="2"),
    Severity.CRITICAL,
    "xid-79",
    FAULT_MS,
    "Xid 79 on GPU 2 of node-0: off the bus (rank 3 of ml/train)",
    "Cordon and drain node-0.",
    evidence=(Evidence("python of ml/train"),),
)
XID = EventRecord(
    "node-0",
    "line-1",
    FAULT_MS,
    EventKind.XID,
    79,
    "GPU has fallen off the bus.",
    "off the bus",
    "node-out",
    UUID,
    2,
    None,
    4711,
    "python of ml/train",
    3,
    (Victim("ml", "train-3", ""),),
    cluster="c1",
)
FELL_OFF = {UUID: ("xid-79", FAULT_MS)}


class Known:
    """What the store has."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reports_since(NIGHT_MS)

    @property
    def faults(self) -> StandingFaults:
        """Of which nobody has asked anything yet."""
        store = self.store
        return StandingFaults(store.findings, store.events, store.gpus, store.machines, store.ledger)

    def told(self, *, ended: bool = True, **changed: Any) -> None:
        finding = replace(FAULT, **changed)
        over_ms = finding.onset_ms + 600_000
        found = FindingInterval(finding, finding.onset_ms, over_ms, ended_ms=over_ms if ended else None)
        self.store.findings.put([found])

    def happened(self, **changed: Any) -> None:
        self.store.events.event(replace(XID, **changed))

    def reports_since(self, from_ms: int, uuid: GpuUuid = UUID, cluster: str = "c1") -> None:
        self.store.gpus.gpu(GpuInterval(Gpu(GpuKey(uuid), cluster, "node-0", "2"), from_ms, None))

    def ready_since(self, from_ms: int) -> None:
        machine = Machine("c1", "node-0", state=MachineState.READY)
        self.store.machines.machine(MachineInterval(machine, from_ms, None))

    def booked(self, hour_ms: int, bucket: Bucket, ms: int, basis: Basis) -> None:
        (one,) = row(hour_ms, holder("train", "vision"), bucket, ms=ms, basis=basis, price=PRICE)
        self.store.ledger.write(hour(hour_ms, [one._replace(gpu=UUID)]))

    def standing(self, now_ms: int = NOW_MS) -> dict[str, tuple[str, int]]:
        assert self.store.records_settled(60)
        return {uuid: (one.cause, one.onset_ms) for uuid, one in self.faults.at(now_ms).items()}


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Known]:
    store = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    yield Known(store)
    store.close()


@pytest.mark.parametrize("ended", [True, False])
def test_a_fault_stands_whether_its_finding_is_over_or_not(known: Known, ended: bool) -> None:
    known.told(ended=ended)
    known.told(cause="xid-48", onset_ms=FAULT_MS + 9)
    assert known.standing() == FELL_OFF, "the first: what came after it followed"


def test_who_had_the_gpu_is_not_told_with_it(known: Known) -> None:
    known.told()
    known.standing()
    fault = known.faults.at(NOW_MS)[UUID]
    assert fault.text.startswith("GPU 2 of node-0 has a fault, and nothing shows that it is mended: Xid 79, ")
    assert fault.subject == Subject(cluster="c1", node="node-0", gpu=UUID, gpu_number="2")
    assert "train" not in repr(fault)
    assert fault.action == "Cordon and drain node-0."


@pytest.mark.parametrize(
    "changed",
    [
        {"severity": Severity.WARNING, "cause": "xid-31"},  # a program's
        {"cause": "lost"},  # its state says so
        {"kind": FindingKind.HANG},
        {"subject": FAULT.subject._replace(gpu=None)},
    ],
)
def test_findings_of_other_troubles_break_no_gpu(known: Known, changed: dict[str, Any]) -> None:
    known.told(**changed)
    assert known.standing() == {}


def test_findings_of_other_causes_are_not_even_read(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet in trouble has thousands."""

    def refuse(row: dict[str, Any]) -> FindingInterval:
        raise AssertionError(row)

    monkeypatch.setattr("trilens.store.findings.finding_of", refuse)
    for cause in ("lost", "row-remap-pending", "nvlink", "xid-31"):
        known.told(cause=cause)
    assert known.standing() == {}


def test_a_fault_that_nobody_found_because_it_was_told_late_stands(known: Known) -> None:
    known.happened()
    assert known.standing() == FELL_OFF
    fault = known.faults.at(NOW_MS)[UUID]
    assert fault.text.startswith("GPU 2 of node-0 has a fault, and nothing shows that it is mended: Xid 79, ")
    assert fault.action.startswith("Cordon and drain node-0, ")
    assert fault.subject == Subject(cluster="c1", node="node-0", gpu=UUID, gpu_number="2")
    assert "train" not in repr(fault)
    known.happened(id="line-2", code=62, t_ms=FAULT_MS - 9, gpu=None)
    assert known.standing() == {UUID: ("xid-62", FAULT_MS - 9)}, "the first"
    assert "nvidia-smi --gpu-reset -i GPU-2" in known.faults.at(NOW_MS)[UUID].action


def test_a_fault_that_was_found_and_told_is_one(known: Known) -> None:
    known.told()
    known.happened()
    assert known.standing() == FELL_OFF
    assert known.faults.at(NOW_MS)[UUID].action == FAULT.action
    known.reports_since(FAULT_MS + 60_000)
    assert known.standing() == {}


def test_a_fault_that_names_a_gpu_by_its_number_is_that_gpus_where_only_one_can_be_meant(
    known: Known,
) -> None:
    known.happened(uuid=None)
    assert known.standing() == FELL_OFF
    known.happened(uuid=None, cluster="")
    assert known.standing() == FELL_OFF
    known.reports_since(NIGHT_MS, GpuUuid("GPU-far"), "c2")
    assert known.standing() == FELL_OFF, "this line says of which cluster it is"


@pytest.mark.parametrize(
    "changed",
    [
        {"code": 31},  # a program's
        {"code": 149},  # nobody knows what it asks for
        {"kind": EventKind.SXID},
        {"uuid": None, "gpu": 5},  # which nobody knows
        {"uuid": None, "gpu": None},
        {"uuid": None, "cluster": "c3"},
        {"uuid": None, "cluster": ""},  # may be either
    ],
)
def test_events_of_other_troubles_break_no_gpu(known: Known, changed: dict[str, Any]) -> None:
    known.reports_since(NIGHT_MS, GpuUuid("GPU-far"), "c2")
    known.happened(**changed)
    assert known.standing() == {}


def test_what_an_nvlink_xid_asks_for_is_in_its_sub_code(known: Known) -> None:
    known.happened(code=149, text="NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000)")
    assert known.standing() == {UUID: ("xid-149", FAULT_MS)}
    assert "reset it" in known.faults.at(NOW_MS)[UUID].action


def test_who_asks_a_moment_later_has_the_same_answer(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    known.happened()
    assert known.standing() == FELL_OFF
    engine = known.store.engine
    asked: list[str] = []
    ask = engine.query_arrow

    def noted(statement: str, **how: Any) -> Any:
        asked.append(statement)
        return ask(statement, **how)

    monkeypatch.setattr(engine, "query_arrow", noted)
    faults = known.faults
    first = faults.at(NOW_MS)
    asked.clear()
    assert faults.at(NOW_MS + 3_000) is first
    assert asked == []
    known.ready_since(FAULT_MS + 1)
    assert known.store.records_settled(60)
    assert faults.at(NOW_MS + 3_001) == {}


@pytest.mark.parametrize("is_found", [True, False])
def test_after_a_day_nobody_says_so_also_of_what_lasts(known: Known, is_found: bool) -> None:
    if is_found:
        known.told(ended=False)
    else:
        known.happened()
    assert known.standing(FAULT_MS + 24 * HOUR_MS - 1) == FELL_OFF
    assert known.standing(FAULT_MS + 24 * HOUR_MS + 1) == {}


def test_faults_of_one_gpu_hide_no_others(known: Known) -> None:
    known.told()
    other = GpuUuid("GPU-noisy")
    for number in range(300):
        known.told(subject=FAULT.subject._replace(gpu=other), onset_ms=FAULT_MS + number)
    assert known.standing() == {**FELL_OFF, other: ("xid-79", FAULT_MS)}


def test_a_gpu_that_reports_anew_is_back_until_its_next_fault(known: Known) -> None:
    known.told()
    known.reports_since(FAULT_MS + 60_000)
    assert known.standing() == {}
    known.told(cause="xid-95", onset_ms=FAULT_MS + 120_000)
    assert known.standing() == {UUID: ("xid-95", FAULT_MS + 120_000)}


@pytest.mark.parametrize(("after_ms", "expected"), [(-1, FELL_OFF), (1, {})])
def test_a_gpu_whose_node_is_ready_anew_is_back(
    known: Known, after_ms: int, expected: dict[str, tuple[str, int]]
) -> None:
    known.told()
    known.ready_since(FAULT_MS + after_ms)
    assert known.standing() == expected


@pytest.mark.parametrize(
    ("hour_ms", "bucket", "ms", "basis", "expected"),
    [
        (NIGHT_MS + HOUR_MS, Bucket.PRODUCTIVE, 90_000, Basis.STEPS, {}),
        (NIGHT_MS + HOUR_MS, Bucket.SERVING_BUSY, 90_000, Basis.LOAD, {}),
        (NIGHT_MS + HOUR_MS, Bucket.PRODUCTIVE, 50_000, Basis.STEPS, FELL_OFF),  # about to fail again
        (NIGHT_MS + HOUR_MS, Bucket.STALLED, HOUR_MS, Basis.STEPS, FELL_OFF),
        (NIGHT_MS, Bucket.PRODUCTIVE, HOUR_MS, Basis.STEPS, FELL_OFF),  # maybe before it
    ],
)
def test_a_gpu_on_which_a_program_works_in_a_later_hour_is_back(
    known: Known, hour_ms: int, bucket: Bucket, ms: int, basis: Basis, expected: dict[str, tuple[str, int]]
) -> None:
    known.told()
    known.booked(hour_ms, bucket, ms, basis)
    assert known.standing() == expected


def test_a_booking_that_was_replaced_shows_no_work(known: Known) -> None:
    """Of the open hour there is another every minute; rows of those before lie there for a while."""
    known.told()
    known.booked(NIGHT_MS + HOUR_MS, Bucket.PRODUCTIVE, 90_000, Basis.STEPS)
    known.booked(NIGHT_MS + HOUR_MS, Bucket.STALLED, HOUR_MS, Basis.STEPS)
    assert known.standing() == FELL_OFF
