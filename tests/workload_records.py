"""A store of workload records with something in it, for tests of what shows them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Doubt, Membership, PodKey, Step, Workload, WorkloadKey
from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import WorkloadRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOON_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z
TRAIN = WorkloadKey("lab", "ml", "kubeflow.org", "PyTorchJob", "train", "u1")
VOLCANO = WorkloadKey("lab", "ml", "batch.volcano.sh", "Job", "batch", "u2")
BATCH = WorkloadKey("lab", "ml", "batch", "Job", "batch", "u3")
OTHER_TRAIN = WorkloadKey("lab", "web", "apps", "Deployment", "train", "u4")
GONE = WorkloadKey("lab", "ml", "batch", "Job", "tune", "u5")
GONE_BEFORE = WorkloadKey("lab", "web", "batch", "Job", "tune", "u6")
DOUBT = Doubt("owner-unreadable", "PyTorchJobs may not be read", "grant list on pytorchjobs")


def minute(minutes: float) -> int:
    return NOON_MS + round(minutes * 60_000)


def _member(
    workload: WorkloadKey, pod: str, rank: int, begin: float, end: float | None, attempt: int = 0
) -> MembershipInterval:
    key = PodKey(workload.cluster, workload.namespace, pod, f"uid-{pod}-{attempt}")
    place = Membership(key, workload, attempt, "worker", None, rank, (DOUBT,))
    return MembershipInterval(
        place, "node-a" if rank else "", minute(begin), None if end is None else minute(end)
    )


@contextmanager
def some_records(folder: Path) -> Iterator[WorkloadRecords]:
    """A job that began at noon, was preempted at 12:10 and came back at 12:20; three namesakes; and two of
    another name that were there before noon."""
    with Engine.open(folder) as engine:
        migrate(engine)
        writer = RecordWriter(engine)
        records = WorkloadRecords(engine, writer)
        step = Step("fit", "Running", minute(0), None, "train-0")
        records.workload(Workload(TRAIN, minute(0), 1, "vision", None, "lr-sweep", "gpu", (step,)))
        for rank in (0, 1):
            records.membership(_member(TRAIN, f"train-{rank}", rank, 0, 10))
            records.membership(_member(TRAIN, f"train-{rank}", rank, 20, None, attempt=1))
        for attempt, phase, reason, begin, end in (
            (0, Phase.RUNNING, "", 0, 10),
            (0, Phase.PREEMPTED, "by team nlp", 10, 20),
            (1, Phase.RUNNING, "", 20, None),
        ):
            end_ms = None if end is None else minute(end)
            records.phase(PhaseInterval(TRAIN, attempt, phase, reason, minute(begin), end_ms))
        for key in (VOLCANO, BATCH, OTHER_TRAIN):
            records.workload(Workload(key))
            records.phase(PhaseInterval(key, 0, Phase.QUEUED, "", minute(0)))
        for key, begin, end in ((GONE, -60, -30), (GONE_BEFORE, -55, -40)):
            records.workload(Workload(key))
            records.membership(_member(key, "tune-0", 0, begin, end))
            records.phase(PhaseInterval(key, 0, Phase.RUNNING, "", minute(begin), minute(end - 5)))
            failed = PhaseInterval(key, 0, Phase.FAILED, "exit code 1", minute(end - 5), minute(end))
            records.phase(failed)
        writer.close()
        yield records
