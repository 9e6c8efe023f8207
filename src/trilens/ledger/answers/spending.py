"""What one run or one workload cost over its whole life, and where its GPU time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.cost import added, hours_known, whole_hours
from trilens.ledger.answers.known_time import A_MOMENT_MS, known_since_ms
from trilens.ledger.answers.why import FOR_NOTHING
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Sum, Window
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.answers.cost import HoursKnown
    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import BookedHour
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunId
    from trilens.model.workload import WorkloadKey

_MINUTE_MS: Final = 60_000
_WHOLE_GPU: Final = "GPU-"  # the ledger names devices, and not the MIG instances that a program may tell


class Spending(NamedTuple):
    """`part` says why the ledger has not all of its time, `unpriced` why all of it is no amount; None where
    that is not so. Until it `is_provisional` no more, it grows or is looked at closer."""

    total: Sum
    buckets: tuple[Sum, ...]  # of the total, the longest first
    hours: HoursKnown
    is_provisional: bool
    part: Doubt | None
    unpriced: Doubt | None

    @property
    def gap(self) -> Doubt | None:
        return self.part or self.unpriced

    @property
    def quanta(self) -> int | None:
        """A part of the amount would be taken for all of it."""
        return self.total.quanta if self.gap is None else None

    @property
    def for_nothing(self) -> int | None:
        """What of it was neither of use nor the writing of a checkpoint, as `cost why` counts."""
        if self.gap is not None:
            return None
        return sum(one.quanta for one in self.buckets if one.keys[0] in FOR_NOTHING)


def run_spending(
    book: LedgerBook, processes: Sequence[RankProcess], now_ms: int, guard: QueryGuard | None = None
) -> Spending | None:
    """Of all processes of a run. None where the ledger has nothing of it."""
    if not processes:
        return None
    run = processes[0].run
    from_ms = min(one.started_ms for one in processes)
    to_ms = max(one.ended_ms if one.ended_ms is not None else now_ms for one in processes)
    life = whole_hours(from_ms, to_ms)
    booked = book.hours(*life, guard=guard)
    found = _spending(book, Dimension.RUN, run, run, from_ms, life, booked, now_ms, guard)
    if found is None or found.part is not None:
        return found
    # One hour tells: that of which it had most, the last of those.
    hour = max(
        booked,
        key=lambda one: (min(one.upto_ms, to_ms) - max(one.hour_ms, from_ms), one.hour_ms, one.revision),
    )
    return found._replace(part=_ranks_elsewhere(book, run, processes, hour, guard))


def workload_spending(
    book: LedgerBook,
    workload: WorkloadKey,
    from_ms: int,
    to_ms: int,
    now_ms: int,
    guard: QueryGuard | None = None,
) -> Spending | None:
    """Of one that was there in that time. None where the ledger has nothing of it."""
    life = whole_hours(from_ms, to_ms)
    booked = book.hours(*life, guard=guard)
    return _spending(book, Dimension.WORKLOAD, workload, workload.name, from_ms, life, booked, now_ms, guard)


def _spending(
    book: LedgerBook,
    dimension: Dimension,
    whose: RunId | WorkloadKey,
    written: str,
    from_ms: int,
    life: tuple[int, int],
    booked: Sequence[BookedHour],
    now_ms: int,
    guard: QueryGuard | None,
) -> Spending | None:
    hours = hours_known(booked, Window(*life), now_ms)
    if not hours.booked:
        return None
    open_ms = now_ms // HOUR_MS * HOUR_MS
    # It may have held its GPUs for up to an hour before its first process, and as long as it liked after.
    window = Window(life[0] - HOUR_MS, open_ms + HOUR_MS, {dimension: (written,)})
    sums = book.sums([dimension, Dimension.BUCKET], window, guard=guard)
    of_buckets: dict[str, list[Sum]] = {}
    for one in sums:
        if one.keys[0] == whose:  # workloads are asked for by name: others may have the same
            of_buckets.setdefault(str(one.keys[1]), []).append(one)
    buckets = [added((bucket,), each) for bucket, each in of_buckets.items()]
    if not buckets:
        return None
    currencies = {one.currency for each in of_buckets.values() for one in each if one.currency}
    is_begun = life[1] > open_ms and all(one.hour_ms != open_ms for one in booked)  # and not computed yet
    total = added((), buckets)
    return Spending(
        total,
        tuple(sorted(buckets, key=lambda one: (-one.gpu_ms, one.keys))),
        hours,
        hours.open > 0 or is_begun,
        _hours_missing(hours, hours.asked - hours.booked - is_begun)
        or _begun_before(book, from_ms, life[0], booked, guard),
        _unpriced(total, currencies),
    )


def _hours_missing(hours: HoursKnown, missing: int) -> Doubt | None:
    if missing <= 0:
        return None
    return Doubt(
        "hours-not-booked",
        f"{missing:,} of its {hours.asked:,} hours are not booked",
        "trilens ledger hours shows those that are, trilens cost adds them up",
    )


def _begun_before(
    book: LedgerBook, from_ms: int, hour_ms: int, booked: Sequence[BookedHour], guard: QueryGuard | None
) -> Doubt | None:
    """In the hour in which Trilens was started, it was there already."""
    earlier = book.hours(hour_ms - HOUR_MS, hour_ms, guard=guard)
    reached = {one.hour_ms: one.upto_ms for one in (*earlier, *booked)}
    unknown_ms = known_since_ms(book, hour_ms, reached, guard) - from_ms
    if unknown_ms <= A_MOMENT_MS:
        return None
    return Doubt(
        "begun-before-the-ledger",
        f"it had begun {unknown_ms // A_MOMENT_MS:,} min before the ledger did",
        "what is spent from then on is in trilens cost",
    )


def _unpriced(total: Sum, currencies: set[str]) -> Doubt | None:
    if len(currencies) > 1:
        return Doubt(
            "several-currencies",
            f"it is in {' and '.join(sorted(currencies))}, which are not added up",
            "trilens cost has each",
        )
    if not total.unpriced_ms:
        return None
    unpriced, whole = (f"{ms / HOUR_MS:,.1f}" for ms in (total.unpriced_ms, total.gpu_ms))
    return Doubt(
        "no-price",
        f"{unpriced} of its {whole} GPU-hours have no price",
        "trilens cost names what has none; write it into the price book",
    )


def _ranks_elsewhere(
    book: LedgerBook,
    run: RunId,
    processes: Sequence[RankProcess],
    hour: BookedHour,
    guard: QueryGuard | None,
) -> Doubt | None:
    """Ranks on machines that nobody watches are in no row."""
    there = {
        one.rank: one
        for one in sorted(processes, key=lambda one: one.started_ms)
        if one.started_ms < hour.upto_ms - _MINUTE_MS and one.heard_ms > hour.hour_ms + _MINUTE_MS
        if one.ended_ms is None or one.ended_ms > hour.hour_ms + _MINUTE_MS
        if any(gpu.startswith(_WHOLE_GPU) for gpu in one.gpus)
    }
    if not there:
        return None
    window = Window(hour.hour_ms, hour.hour_ms + HOUR_MS, {Dimension.RUN: (run,)})
    known = {one.keys[0] for one in book.sums([Dimension.GPU], window, guard=guard)}
    elsewhere = sum(known.isdisjoint(one.gpus) for one in there.values())
    if not elsewhere:
        return None
    return Doubt(
        "ranks-not-booked",
        f"the GPUs of {elsewhere:,} of its {len(there):,} ranks are not in the ledger",
        "watch the cluster or the machines that they are on",
    )
