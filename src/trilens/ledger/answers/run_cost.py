"""What runs cost over their whole lives, where all of these is booked."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.ledger.answers.cost import added
from trilens.ledger.answers.known_time import A_MOMENT_MS, known_since_ms
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.run import RunId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import Sum
    from trilens.model.query import QueryGuard


class RunLife(NamedTuple):
    run: RunId
    from_ms: int
    to_ms: int  # its end, or now


class RunCost(NamedTuple):
    """`quanta` is of the only currency; None without a price, or with several currencies."""

    time: Sum
    quanta: int | None
    currency: str | None


def run_costs(
    book: LedgerBook, lives: Sequence[RunLife], now_ms: int, guard: QueryGuard | None = None
) -> dict[RunId, RunCost]:
    """Without runs of which a part is not booked: it would be taken for the whole."""
    if not lives:
        return {}
    from_ms = min(_hour(one.from_ms) for one in lives)
    to_ms = _hour(now_ms) + HOUR_MS
    reached = {one.hour_ms: one.upto_ms for one in book.hours(from_ms - HOUR_MS, to_ms, guard=guard)}
    booked = sorted(reached)
    begun = {_hour(one.from_ms) for one in lives}
    since = {hour: known_since_ms(book, hour, reached, guard) for hour in begun}
    whole = [
        one.run
        for one in lives
        if _is_booked(one, booked, now_ms) and one.from_ms >= since[_hour(one.from_ms)] - A_MOMENT_MS
    ]
    if not whole:
        return {}
    # A pod may have held its GPUs for up to an hour before its first process.
    window = Window(from_ms - HOUR_MS, to_ms, {Dimension.RUN: tuple(whole)})
    found: defaultdict[RunId, list[Sum]] = defaultdict(list)
    for one in book.sums([Dimension.RUN], window, guard=guard):
        found[RunId(str(one.keys[0]))].append(one)
    return {run: _cost(run, sums) for run, sums in found.items()}


def spent_after(
    book: LedgerBook, moments: Mapping[RunId, int], now_ms: int, guard: QueryGuard | None = None
) -> dict[RunId, RunCost]:
    """From a moment of each run on; the hour in which it lies counts by how much of it was left."""
    if not moments:
        return {}
    window = Window(_hour(min(moments.values())), _hour(now_ms) + HOUR_MS, {Dimension.RUN: tuple(moments)})
    found: defaultdict[RunId, list[Sum]] = defaultdict(list)
    for one in book.sums([Dimension.RUN, Dimension.HOUR], window, guard=guard):
        run, hour_ms = RunId(str(one.keys[0])), one.keys[1]
        assert isinstance(hour_ms, int)
        left_ms = min(HOUR_MS, hour_ms + HOUR_MS - moments[run])
        if left_ms > 0:
            found[run].append(_part(one, left_ms))
    return {run: _cost(run, sums) for run, sums in found.items()}


def _part(of: Sum, left_ms: int) -> Sum:
    """Of an hour; amounts rounded down to the quantum."""
    return of._replace(
        gpu_ms=of.gpu_ms * left_ms // HOUR_MS,
        throttled_ms=of.throttled_ms * left_ms // HOUR_MS,
        useful_ms=of.useful_ms * left_ms // HOUR_MS,
        signal_ms=of.signal_ms * left_ms // HOUR_MS,
        quanta=of.quanta * left_ms // HOUR_MS,
        unpriced_ms=of.unpriced_ms * left_ms // HOUR_MS,
    )


def _cost(run: RunId, sums: Sequence[Sum]) -> RunCost:
    currencies = {one.currency for one in sums if one.currency}
    time = added((run,), sums)
    if len(currencies) != 1:
        return RunCost(time._replace(quanta=0, currency=""), None, None)
    return RunCost(time, time.quanta, currencies.pop())


def _is_booked(life: RunLife, booked: Sequence[int], now_ms: int) -> bool:
    """The hour that runs may not have been computed yet."""
    first, last = _hour(life.from_ms), _hour(max(life.from_ms, life.to_ms - 1))
    hours = (last - first) // HOUR_MS + 1
    known = bisect_left(booked, last + 1) - bisect_left(booked, first)
    return known == hours or (known == hours - 1 and last == _hour(now_ms) and last not in booked[-1:])


def _hour(t_ms: int) -> int:
    return t_ms // HOUR_MS * HOUR_MS
