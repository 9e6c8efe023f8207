"""The time of one GPU, booked: who has how much of each moment of it, and for what."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from math import lcm
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger import causes
from trilens.ledger.allocation import doubts
from trilens.ledger.allocation.amounts import parts_of
from trilens.model.ledger import Basis, Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.allocation.fleet import Device, Outage
    from trilens.ledger.allocation.throttling import Throttling
    from trilens.ledger.span import Span
    from trilens.model.gpu import GpuKey

FLEET_NUMBER: Final = 0  # the fleet, among the holders of an hour
UNTOLD: Final = -1


class Hold(NamedTuple):
    """Time of one holder on a GPU, or on a part of it. `spans` cover it in order, and may reach beyond it."""

    holding: int  # holds of one holding at the same time have equal parts of its share
    gpu: GpuKey
    from_ms: int
    to_ms: int
    share: Fraction | None
    holder: int
    spans: Sequence[Span]
    doubts: tuple[str, ...]


# What tells one row of a GPU from another, in the order of the rows: holder, bucket, cause, since_ms, step,
# basis and doubts. UNTOLD where nobody told since when, or at which step: None has no place in an order.
Entry = tuple[int, Bucket, str, int, int, Basis, tuple[str, ...]]


class Booked:
    """GPU-milliseconds by entry, and how many of them were throttled."""

    __slots__ = ("ms", "throttled_ms")

    def __init__(self) -> None:
        self.ms: dict[Entry, int] = {}
        self.throttled_ms: dict[Entry, int] = {}

    def add(self, entry: Entry, ms: int) -> None:
        self.ms[entry] = self.ms.get(entry, 0) + ms


_FREE: Final[Entry] = (FLEET_NUMBER, Bucket.UNALLOCATED, causes.FREE, UNTOLD, UNTOLD, Basis.NODE, ())


def makes_progress(span: Span) -> bool:
    return span.basis.is_signal and any(part.bucket.is_progress and part.ms for part in span.parts)


def book(
    device: Device,
    holds: Sequence[Hold],
    from_ms: int,
    to_ms: int,
    throttling: Mapping[GpuKey, Throttling],
    booked: Booked,
) -> None:
    """All of a GPU's time between the two: it comes out whole, to the millisecond."""
    if not device.outages:
        if not holds:
            booked.add(_FREE, (to_ms - from_ms) * device.count)
            return
        if len(holds) == 1:
            only = holds[0]
            if only.share == 1 and only.from_ms <= from_ms and only.to_ms >= to_ms:
                _book_hold(only, from_ms, to_ms, to_ms - from_ms, None, only.doubts, throttling, booked)
                return
    cuts = {from_ms, to_ms}
    for hold in holds:
        cuts.update(t for t in (hold.from_ms, hold.to_ms) if from_ms < t < to_ms)
    for outage in device.outages:
        cuts.update(t for t in (outage.from_ms, outage.to_ms) if from_ms < t < to_ms)
    for begin, end in pairwise(sorted(cuts)):
        _book_moment(device, holds, begin, end, throttling, booked)


def _book_moment(
    device: Device,
    holds: Sequence[Hold],
    begin: int,
    end: int,
    throttling: Mapping[GpuKey, Throttling],
    booked: Booked,
) -> None:
    """Nobody comes and nobody goes in it."""
    active = [hold for hold in holds if hold.from_ms <= begin and hold.to_ms >= end]
    outages = [one for one in device.outages if one.from_ms <= begin and one.to_ms >= end]
    of_holding = [[*group] for _, group in groupby(active, key=attrgetter("holding"))]
    shared = _shared(tuple([(group[0].share, len(group)) for group in of_holding]))
    *of_holds, free_ms = parts_of(end - begin, shared.weights)
    for_all = next((one for one in outages if not one.is_for_free_ones), None)
    for hold, ms in zip(active, of_holds, strict=True):
        told = shared.doubts if hold.share is not None else (*shared.doubts, doubts.SHARE_UNKNOWN)
        codes = tuple(sorted({*hold.doubts, *told})) if told else hold.doubts
        _book_hold(hold, begin, end, ms, for_all, codes, throttling, booked)
    if free_ms:
        out = for_all or next(iter(outages), None)
        booked.add(_FREE if out is None else _broken(out), free_ms * device.count)


class _Shared(NamedTuple):
    weights: list[int]  # of each hold, and of what nobody holds
    doubts: tuple[str, ...]


@lru_cache(maxsize=1024)  # GPUs are shared in a few ways only
def _shared(shares: tuple[tuple[Fraction | None, int], ...]) -> _Shared:
    """Of each holding its share, and how many holds have equal parts of it: at most the GPU in all."""
    known = sum((share for share, _ in shares if share is not None), Fraction(0))
    unknown = sum(share is None for share, _ in shares)
    scale = 1 / known if known > 1 else Fraction(1)
    rest = (1 - known * scale) / unknown if unknown else Fraction(0)
    parts: list[Fraction] = []
    for share, holds in shares:
        parts += [(rest if share is None else share * scale) / holds] * holds
    whole = lcm(*(part.denominator for part in parts))
    weights = [part.numerator * (whole // part.denominator) for part in parts]
    codes = (doubts.OVERLAPPING_BINDINGS,) if known > 1 else ()
    return _Shared([*weights, whole - sum(weights)], codes)


def _book_hold(
    hold: Hold,
    begin: int,
    end: int,
    ms: int,
    outage: Outage | None,
    codes: tuple[str, ...],
    throttling: Mapping[GpuKey, Throttling],
    booked: Booked,
) -> None:
    """`ms` of the time from `begin` to `end` are the holder's."""
    spans = hold.spans
    if spans[0].from_ms < begin or spans[-1].to_ms > end:
        spans = [
            span.within(max(span.from_ms, begin), min(span.to_ms, end))
            for span in spans
            if span.from_ms < end and span.to_ms > begin
        ]
    own_ms: list[int] | None = None
    if ms != end - begin:
        own_ms = parts_of(ms, [part.ms for span in spans for part in span.parts])
        own_ms.reverse()
    throttled = throttling.get(hold.gpu)
    holder, totals = hold.holder, booked.ms
    for span in spans:
        from_ms, to_ms, parts, basis, since_ms, step, told = span
        doubted = codes if not told else tuple(sorted({*codes, *told})) if codes else tuple(sorted(told))
        is_broken = outage is not None and not makes_progress(span)
        since_ms = UNTOLD if since_ms is None else since_ms
        step = UNTOLD if step is None else step
        for bucket, cause, whole_ms in parts:
            part_ms = whole_ms if own_ms is None else own_ms.pop()
            if not part_ms:
                continue
            if is_broken:
                assert outage is not None
                entry = _broken(outage)
            else:
                entry = (holder, bucket, cause, since_ms, step, basis, doubted)
            totals[entry] = totals.get(entry, 0) + part_ms
            if throttled is not None and not is_broken and bucket.is_useful:
                slow_ms = throttled.part_of(part_ms, from_ms, to_ms)
                if slow_ms:
                    booked.throttled_ms[entry] = booked.throttled_ms.get(entry, 0) + slow_ms


def _broken(outage: Outage) -> Entry:
    since_ms = UNTOLD if outage.since_ms is None else outage.since_ms
    return FLEET_NUMBER, Bucket.BROKEN, outage.cause, since_ms, UNTOLD, Basis.NODE, ()
