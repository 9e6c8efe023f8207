"""What a run or a workload cost over its whole life: all of it, or why that is not known."""

from __future__ import annotations

from typing import Any

from ledger_nights import NIGHT_MS, first_hour, holder, hour, row, workload
from memory_book import MemoryBook
from trilens.ledger.answers.spending import run_spending, workload_spending
from trilens.model.ledger import HOUR_MS, Bucket, Holder, LedgerHour
from trilens.model.run import RankProcess, RunId, WriterId

RUN = RunId("run-1")
OURS = holder("train", "vision", RUN)
OTHERS = holder("train-2", "vision", "run-2")
NOW_MS = NIGHT_MS + 30 * HOUR_MS
MINUTE_MS = 60_000


def process(from_h: float = 0.5, to_h: float | None = 2.5, *, rank: int = 0, **more: Any) -> RankProcess:
    start, end = NIGHT_MS + round(from_h * HOUR_MS), NIGHT_MS + round((to_h or 0) * HOUR_MS)
    ended = end if to_h is not None else None
    return RankProcess(RUN, rank, WriterId(f"w{rank}"), start, ended_ms=ended, **more)


def booked(at: int, *, whose: Holder = OURS, upto_ms: int | None = None, **more: Any) -> LedgerHour:
    """Two GPUs at four dollars, three quarters of an hour in use and a quarter waiting."""
    hour_ms = NIGHT_MS + at * HOUR_MS
    return hour(
        hour_ms,
        row(hour_ms, whose, Bucket.PRODUCTIVE, gpus=2, ms=HOUR_MS * 3 // 4, **more),
        row(hour_ms, whose, Bucket.DATA_WAIT, gpus=2, ms=HOUR_MS // 4, **more),
        row(hour_ms, OTHERS, Bucket.STALLED, gpus=3),
        upto_ms=upto_ms,
    )


def spent(*hours: LedgerHour, processes: tuple[RankProcess, ...] = (process(),), now_ms: int = NOW_MS) -> Any:
    return run_spending(MemoryBook(*hours), processes, now_ms)


def test_all_of_a_run_by_bucket() -> None:
    found = spent(booked(0), booked(1), booked(2))
    assert (found.quanta, found.for_nothing, found.total.currency) == (24 * 10**9, 6 * 10**9, "USD")
    assert found.total.gpu_ms == 6 * HOUR_MS
    assert [(one.keys[0], one.gpu_ms) for one in found.buckets] == [
        ("productive", 9 * HOUR_MS // 2),
        ("data_wait", 3 * HOUR_MS // 2),
    ]
    assert (found.gap, found.is_provisional) == (None, False)


def test_writing_a_checkpoint_is_not_for_nothing() -> None:
    at = hour(NIGHT_MS, row(NIGHT_MS, OURS, Bucket.CHECKPOINT), row(NIGHT_MS, OURS, Bucket.RECOMPUTE, gpus=2))
    found = spent(at, processes=(process(0, 1),))
    assert (found.quanta, found.for_nothing) == (12 * 10**9, 8 * 10**9)


def test_what_a_pod_held_before_and_after_its_program_is_in_it() -> None:
    found = spent(*(booked(at) for at in range(4)), processes=(process(2.1, 2.9),))
    assert found.hours.asked == 1
    assert found.total.gpu_ms == 6 * HOUR_MS, "with the hour before and all after, and no more"


def test_an_hour_that_is_not_booked_leaves_a_part_of_the_truth() -> None:
    found = spent(booked(0), booked(2))
    assert (found.quanta, found.for_nothing) == (None, None)
    assert found.gap.code == "hours-not-booked"
    assert found.gap.text == "1 of its 3 hours are not booked"
    assert spent(booked(5)) is None, "none of its hours"
    assert spent(booked(0, whose=OTHERS), booked(1), booked(2)).gap is None, "it had no GPU in the first"
    assert spent(*(booked(at, whose=OTHERS) for at in range(3))) is None, "it never had one"
    assert run_spending(MemoryBook(booked(0)), (), NOW_MS) is None


def test_what_had_begun_before_the_ledger_is_a_part_of_the_truth() -> None:
    ours = row(NIGHT_MS, OURS, Bucket.PRODUCTIVE, ms=600_000)
    found = spent(first_hour(NIGHT_MS, 600_000, ours), processes=(process(0.5, 0.9),))
    assert found.gap is not None
    assert (found.gap.code, found.quanta) == ("begun-before-the-ledger", None)
    assert found.gap.text == "it had begun 20 min before the ledger did"


def test_what_has_no_price_is_no_amount_and_its_time_is_known() -> None:
    found = spent(booked(0), booked(1, price=None), booked(2))
    assert (found.quanta, found.part, found.unpriced.code) == (None, None, "no-price")
    assert found.unpriced.text == "2.0 of its 6.0 GPU-hours have no price"
    assert found.total.gpu_ms == 6 * HOUR_MS
    several = spent(booked(0), booked(1, currency="EUR"), booked(2))
    assert (several.quanta, several.unpriced.code) == (None, "several-currencies")


def test_it_is_provisional_while_an_hour_of_it_is_open() -> None:
    now_ms = NIGHT_MS + 2 * HOUR_MS + 10 * MINUTE_MS
    running = (process(0.5, None),)
    half = booked(2, upto_ms=now_ms - MINUTE_MS)
    assert spent(booked(0), booked(1), half, processes=running, now_ms=now_ms).is_provisional
    not_yet = spent(booked(0), booked(1), processes=running, now_ms=now_ms)
    assert (not_yet.gap, not_yet.is_provisional) == (None, True), "the open hour may not be computed yet"
    over = (process(0.5, 1.5),)
    assert not spent(booked(0), booked(1), half, processes=over, now_ms=now_ms).is_provisional
    not_closed = booked(1, upto_ms=NIGHT_MS + 2 * HOUR_MS - MINUTE_MS)
    assert spent(booked(0), not_closed, processes=over, now_ms=now_ms).is_provisional


def test_ranks_on_machines_that_nobody_watches_are_said() -> None:
    heard_ms = NIGHT_MS + 2 * HOUR_MS
    known = process(gpus=("GPU-run-1-0",), heard_ms=heard_ms)
    unknown = process(rank=1, gpus=("GPU-elsewhere",), heard_ms=heard_ms)
    hours = [booked(at) for at in range(3)]
    assert spent(*hours, processes=(known,)).gap is None
    found = spent(*hours, processes=(known, unknown))
    assert (found.quanta, found.gap.code) == (None, "ranks-not-booked")
    assert found.gap.text == "the GPUs of 1 of its 2 ranks are not in the ledger"
    slice_of_one = process(rank=1, gpus=("MIG-1",), heard_ms=heard_ms)
    assert spent(*hours, processes=(known, slice_of_one)).gap is None, "the ledger has the device's name"
    earlier = process(0.5, 0.9, rank=1, gpus=("GPU-elsewhere",), heard_ms=heard_ms)
    assert spent(*hours, processes=(known, earlier)).gap is None, "it was over then"


def test_a_workload_is_itself_and_no_namesake() -> None:
    ours, namesake = workload("train"), workload("train", "other")
    book = MemoryBook(
        booked(0, whose=OURS._replace(run=None)), booked(1, whose=OURS._replace(workload=namesake))
    )
    found = workload_spending(book, ours, NIGHT_MS, NIGHT_MS + HOUR_MS, NOW_MS)
    assert found is not None
    assert (found.quanta, found.gap) == (8 * 10**9, None)
    assert workload_spending(book, workload("none"), NIGHT_MS, NIGHT_MS + HOUR_MS, NOW_MS) is None
