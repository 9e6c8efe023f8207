"""Faults of GPUs that nothing shows to be mended, from records of a real store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ledger_nights import PRICE, holder, hour, row
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
FELL_OFF = {UUID: ("xid-79", FAULT_MS)}


class Known:
    """What the store has."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.faults = StandingFaults(store.findings, store.gpus, store.machines, store.ledger_facts)
        self.reports_since(NIGHT_MS)

    def told(self, *, ended: bool = True, **changed: Any) -> None:
        finding = replace(FAULT, **changed)
        over_ms = finding.onset_ms + 600_000
        found = FindingInterval(finding, finding.onset_ms, over_ms, ended_ms=over_ms if ended else None)
        self.store.findings.put([found])

    def reports_since(self, from_ms: int) -> None:
        self.store.gpus.gpu(GpuInterval(Gpu(GpuKey(UUID), "c1", "node-0", "2"), from_ms, None))

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


def test_after_a_day_nobody_says_so_also_of_what_lasts(known: Known) -> None:
    known.told(ended=False)
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
