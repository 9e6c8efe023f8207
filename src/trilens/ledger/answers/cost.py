"""What was spent, on what, and how that compares with the period before."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.ledger_sums import BookedHour, Window
    from trilens.model.workload import Doubt, WorkloadKey

    Keys = tuple[str | int | WorkloadKey | None, ...]

_OF_TIME = (Dimension.HOUR, Dimension.DAY)  # the same hour is never in both periods: compared by its place


class Line(NamedTuple):
    """The same keys in both periods. `now` is None where they are gone, `before` where they are new."""

    keys: Keys
    currency: str
    now: Sum | None
    before: Sum | None


def whole_hours(from_ms: int, to_ms: int) -> tuple[int, int]:
    """The hours that have a part in it: rows of the ledger have no smaller piece of time."""
    first = from_ms // HOUR_MS * HOUR_MS
    return first, max(first + HOUR_MS, -(-to_ms // HOUR_MS) * HOUR_MS)


def period_before(window: Window) -> Window:
    """As long, and right before it."""
    return replace(window, from_ms=2 * window.from_ms - window.to_ms, to_ms=window.from_ms)


def added(keys: Keys, sums: Iterable[Sum]) -> Sum:
    """All of one currency, or without one."""
    gpu_ms = throttled_ms = useful_ms = signal_ms = quanta = unpriced_ms = 0
    currency = ""
    for one in sums:
        gpu_ms += one.gpu_ms
        throttled_ms += one.throttled_ms
        useful_ms += one.useful_ms
        signal_ms += one.signal_ms
        quanta += one.quanta
        unpriced_ms += one.unpriced_ms
        currency = currency or one.currency
    return Sum(keys, gpu_ms, throttled_ms, useful_ms, signal_ms, quanta, unpriced_ms, currency)


def by_keys(sums: Iterable[Sum], *, keep: Sequence[int] | None = None) -> list[Sum]:
    """One for each combination of keys and each currency, the largest amount first; `keep` are the places of
    the keys that stay. Time without a price stands with the priced time of its keys where that is of one
    currency: with several, or none, it stands alone."""
    grouped: dict[Keys, list[Sum]] = {}
    for one in sums:
        keys = one.keys if keep is None else tuple(one.keys[at] for at in keep)
        alike = grouped.get(keys)
        if alike is None:
            grouped[keys] = [one]
        else:
            alike.append(one)
    found = []
    for keys, alike in grouped.items():
        if len(alike) == 1:  # as nearly all of the many workloads of a month
            found.append(alike[0] if keep is None else alike[0]._replace(keys=keys))
        else:
            found += _by_currency(keys, alike)
    return largest_first(found)


def _by_currency(keys: Keys, sums: Iterable[Sum]) -> list[Sum]:
    currencies: defaultdict[str, list[Sum]] = defaultdict(list)
    for one in sums:
        currencies[one.currency].append(one)
    priced = [currency for currency in currencies if currency]
    if len(priced) == 1:
        currencies[priced[0]] += currencies.pop("", [])
    return [added(keys, of_currency) for of_currency in currencies.values()]


def largest_first(sums: Iterable[Sum]) -> list[Sum]:
    def size(one: Sum) -> tuple[int, int, str]:
        return -one.quanta, -one.gpu_ms, one.currency

    found: list[Sum] = []
    for _, equals in groupby(sorted(sums, key=size), size):
        alike = [*equals]
        found += sorted(alike, key=lambda one: shown_order(one.keys)) if len(alike) > 1 else alike
    return found


def shown_order(keys: Keys) -> tuple[tuple[bool, str], ...]:
    return tuple((key is None, str(key)) for key in keys)


def can_compare(by: Sequence[Dimension], length_ms: int) -> bool:
    """Days have a counterpart only in a period of whole days."""
    return Dimension.DAY not in by or not length_ms % (24 * HOUR_MS)


def compared(
    by: Sequence[Dimension], now: Sequence[Sum], before: Sequence[Sum], length_ms: int
) -> list[Line]:
    """As `now` is ordered, then what is gone. Hours and days are compared with those `length_ms` before."""
    moved = [at for at, one in enumerate(by) if one in _OF_TIME]

    def same_place(one: Sum) -> Keys:
        if not moved:
            return one.keys
        return tuple(
            key + length_ms if at in moved and isinstance(key, int) else key
            for at, key in enumerate(one.keys)
        )

    earlier = {(same_place(one), one.currency): one for one in before}
    lines = [Line(one.keys, one.currency, one, earlier.pop((one.keys, one.currency), None)) for one in now]
    return lines + [Line(keys, currency, None, one) for (keys, currency), one in earlier.items()]


def totals(now: Sequence[Sum], before: Sequence[Sum]) -> list[Line]:
    """One for each currency."""
    return compared((), by_keys(now, keep=()), by_keys(before, keep=()), 0)


@dataclass(frozen=True, slots=True)
class HoursKnown:
    """How complete the hours of a window are. `upto_ms` is until when the open one was computed."""

    asked: int  # those that have begun
    booked: int
    open: int
    upto_ms: int | None
    corrected: int  # have a later revision than their first
    prices: int  # different price books that they were computed with
    warnings: tuple[HoursWarning, ...]


def booked_stretches(booked: Iterable[BookedHour]) -> list[tuple[int, int]]:
    """From and until when hours are booked, one after the other, each at most a day."""
    found: list[tuple[int, int]] = []
    for hour_ms, upto_ms in sorted({one.hour_ms: one.upto_ms for one in booked}.items()):
        if found and found[-1][1] == hour_ms and upto_ms - found[-1][0] <= 24 * HOUR_MS:
            found[-1] = found[-1][0], upto_ms
        else:
            found.append((hour_ms, upto_ms))
    return found


class HoursWarning(NamedTuple):
    doubt: Doubt
    gpu_ms: int
    hours: int


def hours_known(booked: Iterable[BookedHour], window: Window, now_ms: int) -> HoursKnown:
    latest: dict[int, BookedHour] = {}
    for one in booked:
        if one.hour_ms not in latest or latest[one.hour_ms].revision <= one.revision:
            latest[one.hour_ms] = one
    unfinished = [one for one in latest.values() if one.upto_ms < one.hour_ms + HOUR_MS]
    said: defaultdict[Doubt, list[int]] = defaultdict(list)
    for one in latest.values():
        for doubt, gpu_ms in one.warnings:
            said[doubt].append(gpu_ms)
    begun_ms = min(window.to_ms, max(window.from_ms, -(-now_ms // HOUR_MS) * HOUR_MS))
    return HoursKnown(
        (begun_ms - window.from_ms) // HOUR_MS,
        len(latest),
        len(unfinished),
        max((one.upto_ms for one in unfinished), default=None),
        sum(one.revision > 0 for one in latest.values()),
        len({one.prices for one in latest.values()}),
        tuple(
            sorted(
                (HoursWarning(doubt, sum(each), len(each)) for doubt, each in said.items()),
                key=lambda one: (-one.gpu_ms, one.doubt.code, one.doubt.text),
            )
        ),
    )
