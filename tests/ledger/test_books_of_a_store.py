"""What a store was told of runs is booked, and booked otherwise once it is told more: nothing here is a
stand-in but for telemetry, of which there is none."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from empty_records import NoSignals
from ledger_fleets import H100, PlainPrices
from run_records import step, writer
from trilens.collect.runs.records import grown
from trilens.ledger.booked_sums import node_sums
from trilens.ledger.due_hours import hour_of
from trilens.ledger.verify import verify_sums
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.imported import ImportedJob
from trilens.model.ledger import HOUR_MS, LedgerHour
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.life import MembershipInterval
from trilens.model.machine import Machine, MachineInterval
from trilens.model.run import CheckpointRecord, Ending, RankProcess, RunId
from trilens.model.run_commit import Position, RunCommit
from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey
from trilens.serve.money.ledger_keeper import LedgerKeeper
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.model.run import StepRecord

MINUTE_MS = 60_000
NOW_MS = time.time_ns() // 1_000_000  # when records come in is told by the store's own clock
FIRST_MS = hour_of(NOW_MS) - 5 * HOUR_MS
STEP_MS = 30_000
SPOOLED, CRASHED = RunId("spooled"), RunId("crashed")
GPU_HOUR = 2_685_000_000  # quanta: two GPUs at 2.50 in a node at 0.37 more
KEPT_LEDGER = timedelta(days=400)


def at(minutes: float) -> int:
    return FIRST_MS + round(minutes * MINUTE_MS)


class Books:
    """A keeper of a store, whose time stands still unless it is moved."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_ms = NOW_MS
        self._keeper = LedgerKeeper(
            store.ledger_facts,
            NoSignals(),
            store.ledger,
            PlainPrices(),
            kept_for=timedelta(days=7),
            booked_for=KEPT_LEDGER,
            late=store.ledger_facts,
            imports=store.imports,
            clock_ms=lambda: self.now_ms,
        )
        self.works()

    def works(self, minutes: float = 0) -> None:
        """So much later, until there is nothing to do."""
        self.now_ms += round(minutes * MINUTE_MS)
        while self._keeper.try_to_work() == 0:
            pass
        assert self._keeper.state.failures == 0

    def buckets(self, run: RunId, hour_ms: int) -> dict[object, float]:
        """Minutes."""
        window = Window(hour_ms, hour_ms + HOUR_MS, {Dimension.RUN: (run,)})
        found = self.store.ledger.sums([Dimension.BUCKET], window)
        return {one.keys[0]: one.gpu_ms / MINUTE_MS for one in found}

    def revisions(self, hour_ms: int) -> list[tuple[int, str, int]]:
        found = self.store.ledger.hours(hour_ms, hour_ms + HOUR_MS)
        return [(one.revision, one.reason, one.changed_quanta) for one in found]


def hold(store: Store, run: RunId, number: int, from_ms: int, to_ms: int | None) -> None:
    """A pod of the run's name has a GPU."""
    key, uid = GpuKey(GpuUuid(f"GPU-{number}")), f"uid-{run}"
    pod = PodKey("lab", "ml", run, uid)
    job = WorkloadKey("lab", "ml", "batch", "Job", run, uid)
    store.gpus.gpu(GpuInterval(Gpu(key, "lab", "n1", str(number), H100), FIRST_MS, None))
    store.workloads.membership(MembershipInterval(Membership(pod, job), "n1", from_ms, to_ms))
    held = GpuBinding(key, pod, "main", Fraction(1), (ClaimSource.KUBELET,))
    store.gpus.binding(BindingInterval(held, from_ms, to_ms))


def life(run: RunId, attempt: int, started_ms: int, ended_ms: int | None, ending: Ending) -> RankProcess:
    place = {"namespace": "ml", "pod": run, "pod_uid": f"uid-{run}", "node": "n1"}
    told = RankProcess(run, 0, writer(attempt), started_ms, attempt, **place)  # type: ignore[arg-type]
    return replace(told, ended_ms=ended_ms, ending=None if ended_ms is None else ending)


def steps_of(run: RunId, first: int, count: int, begin_ms: int, attempt: int = 0) -> list[StepRecord]:
    """One after the other."""
    return [
        step(
            first + n,
            0,
            attempt,
            run=run,
            n=first + n if attempt == 0 else n,
            start_us=(begin_ms + n * STEP_MS) * 1000,
            duration_us=STEP_MS * 1000,
        )
        for n in range(count)
    ]


def tell(
    store: Store,
    process: RankProcess,
    new: Sequence[StepRecord],
    before: Sequence[StepRecord] = (),
    checkpoints: Sequence[CheckpointRecord] = (),
) -> None:
    """`before` are steps that it had told already."""
    spans = grown((), [*before, *new])
    position = Position(process.run, 0, process.writer, process.attempt, len(before) + 1, spans)
    store.runs.commit(
        RunCommit(processes=[process], steps=[*new], checkpoints=[*checkpoints], positions=[position])
    )


OF_SPOOLED = steps_of(SPOOLED, 0, 100, at(10))
OF_CRASHED = steps_of(CRASHED, 0, 119, at(60))
SAVED = CheckpointRecord(CRASHED, 59, 0, 0, 0, "step-59", at(90), duration_us=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One program could not reach the server from half past on. Another has made steps for an hour."""
    options = StoreOptions(data_dir=tmp_path_factory.mktemp("books") / "data", retention_ledger=KEPT_LEDGER)
    opened = Store.open(options, upkeep=False)
    machine = Machine("lab", "n1", instance_type="p5", region="eu", gpu_model=H100, gpus=2)
    opened.machines.machine(MachineInterval(machine, FIRST_MS, None))
    hold(opened, SPOOLED, 0, FIRST_MS, at(60))
    hold(opened, CRASHED, 1, at(60), None)
    opened._records.close()  # all of it is on disk
    tell(opened, life(SPOOLED, 0, FIRST_MS, None, Ending.FINISHED), OF_SPOOLED[:40])
    tell(opened, life(CRASHED, 0, at(60), None, Ending.LOST), OF_CRASHED, checkpoints=[SAVED])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def books(store: Store) -> Books:
    return Books(store)


def test_steps_that_come_after_their_hour_was_booked_correct_it(store: Store, books: Books) -> None:
    assert books.buckets(SPOOLED, FIRST_MS) == {"starting": 10, "productive": 20, "stalled": 30}
    assert [revision for revision, *_ in books.revisions(FIRST_MS)] == [0]
    ended = life(SPOOLED, 0, FIRST_MS, at(60), Ending.FINISHED)
    tell(store, ended, OF_SPOOLED[40:], before=OF_SPOOLED[:40])
    books.works(minutes=5)
    assert books.buckets(SPOOLED, FIRST_MS) == {"starting": 10, "productive": 50}
    assert books.revisions(FIRST_MS)[1:] == [(1, "late records", GPU_HOUR // 2)]
    assert len(books.revisions(at(60))) == 1, "the last step ended in it, and nothing is otherwise"


def test_steps_that_a_crash_took_are_recompute_once_it_is_known(store: Store, books: Books) -> None:
    hour_ms = at(60)
    assert books.buckets(CRASHED, hour_ms)["productive"] > 59
    before = len(books.revisions(hour_ms))
    lost = life(CRASHED, 0, hour_ms, at(119.75), Ending.LOST)
    again = life(CRASHED, 1, books.now_ms - 3 * MINUTE_MS, None, Ending.LOST)
    loaded = CheckpointRecord(CRASHED, 59, 0, 1, 0, "step-59", again.started_ms, loaded=True)
    tell(store, lost, [], before=OF_CRASHED)
    redone = steps_of(CRASHED, 60, 4, again.started_ms + STEP_MS, attempt=1)
    tell(store, again, redone, checkpoints=[loaded])
    books.works(minutes=1)
    found = books.buckets(CRASHED, hour_ms)
    assert found["recompute"] == 59 * 0.5, "after the checkpoint; with what led to it nothing is wrong"
    assert found["productive"] == 30.25
    # Beside these it is now known that the program did not stand still for its last half minute.
    assert books.revisions(hour_ms)[before:] == [(before, "lost work", GPU_HOUR // 2)]


def test_what_is_booked_adds_up(store: Store, books: Books) -> None:
    window = Window(FIRST_MS, hour_of(NOW_MS))
    rows = list(store.ledger.rows(window))
    bills = store.ledger.bills(window.from_ms, window.to_ms)
    assert len(bills) == 5
    assert verify_sums(bills, node_sums(rows)) == []


class OneTurn(threading.Event):
    """Told to go on once, and then to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        stops = self.is_set()
        self.set()
        return stops


def test_the_upkeep_lets_months_go_that_the_ledger_need_not_keep(store: Store, books: Books) -> None:
    long_ago_ms = hour_of(NOW_MS) - round(KEPT_LEDGER.total_seconds() * 1000) - 32 * 24 * HOUR_MS
    store.ledger.write(LedgerHour(long_ago_ms, long_ago_ms + HOUR_MS, (), (), (), "p"))
    job = ImportedJob("slurm", "old", "1", None, long_ago_ms, long_ago_ms + HOUR_MS, Fraction(8))
    store.imports.put_jobs([job])
    booked = store.ledger.hours(FIRST_MS, NOW_MS)
    store._upkeep._stop = OneTurn()
    store._upkeep._work()
    assert store.ledger.hours(0, FIRST_MS) == []
    assert store.imports.jobs_during(long_ago_ms, long_ago_ms + HOUR_MS) == []
    assert store.ledger.hours(FIRST_MS, NOW_MS) == booked
