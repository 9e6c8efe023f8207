"""Stalls that were found while they lasted, by a run's own rhythm: also those that are too short to show in
steps that are added up by the minute."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.ledger import causes
from trilens.ledger.span import Part, Span
from trilens.model.ledger import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.ledger.lives.told_lives import ToldLives
    from trilens.model.ledger_facts import FoundStall, LifeKey
    from trilens.model.run import RunId

# A finding ends some seconds late, by when it was last seen; and clocks differ.
_EDGE_US: Final = 10_000_000
_WAITS: Final = (Bucket.DATA_WAIT, Bucket.SYNC_WAIT)


def with_found_stalls(
    spans: dict[LifeKey, list[Span]], stalls: Iterable[FoundStall], told: ToldLives
) -> dict[LifeKey, list[Span]]:
    """Of all ranks of a run, but for those that are seen to step meanwhile. Starts, checkpoints, validations
    and lost work stay what they are."""
    by_run = _together(stalls)
    if not by_run:
        return spans
    for life, key in enumerate(told.keys):
        for from_ms, to_ms in by_run.get(key.run, ()):
            if not _steps_in(told, life, 1000 * from_ms, 1000 * to_ms):
                waited = _waited_ms(told, life, 1000 * from_ms, 1000 * to_ms)
                spans[key] = [one for span in spans[key] for one in _stalled(span, from_ms, to_ms, waited)]
    return spans


def _together(stalls: Iterable[FoundStall]) -> Mapping[RunId, Sequence[tuple[int, int]]]:
    """One that is found anew with another cause is the same."""
    found: defaultdict[RunId, list[tuple[int, int]]] = defaultdict(list)
    for run, from_ms, to_ms in sorted(stalls):
        known = found[run]
        if known and from_ms <= known[-1][1]:
            known[-1] = (known[-1][0], max(known[-1][1], to_ms))
        elif from_ms < to_ms:
            known.append((from_ms, to_ms))
    return found


def _steps_in(told: ToldLives, life: int, from_us: int, to_us: int) -> bool:
    rows = slice(int(told.first_row[life]), int(told.end_row[life]))
    for ends in (told.minutes.first_end_us[rows], told.minutes.last_end_us[rows]):
        if ((ends > from_us + _EDGE_US) & (ends < to_us - _EDGE_US)).any():
            return True
    return False


def _waited_ms(told: ToldLives, life: int, from_us: int, to_us: int) -> dict[Bucket, int]:
    """What the steps of the minutes around it waited for: the one that did not end is among them."""
    rows = slice(int(told.first_row[life]), int(told.end_row[life]))
    around = (told.begin_us[rows] < to_us) & (told.minutes.last_end_us[rows] > from_us)
    waits = (told.minutes.data_us[rows], told.minutes.sync_us[rows])
    return {bucket: int(us[around].sum()) // 1000 for bucket, us in zip(_WAITS, waits, strict=True)}


def _stalled(
    span: Span, stall_from_ms: int, stall_to_ms: int, waited_ms: Mapping[Bucket, int]
) -> Iterator[Span]:
    from_ms, to_ms = max(span.from_ms, stall_from_ms), min(span.to_ms, stall_to_ms)
    room_ms = sum(part.ms for part in span.parts if _may_be_stalled(part))
    if from_ms >= to_ms or room_ms < to_ms - from_ms:
        yield span
        return
    rest = span._replace(
        from_ms=0,
        to_ms=span.to_ms - span.from_ms - (to_ms - from_ms),
        parts=_less(span.parts, to_ms - from_ms, waited_ms),
    )
    before_ms = from_ms - span.from_ms
    before = rest.within(0, before_ms) if before_ms else None
    if before is not None:
        yield before._replace(from_ms=span.from_ms, to_ms=from_ms)
    stalled = Part(Bucket.STALLED, causes.NO_STEP, to_ms - from_ms)
    yield span._replace(from_ms=from_ms, to_ms=to_ms, parts=(stalled,), since_ms=stall_from_ms, step=None)
    if to_ms < span.to_ms:
        taken = {part[:2]: part.ms for part in before.parts} if before is not None else {}
        left = [part._replace(ms=part.ms - taken.get(part[:2], 0)) for part in rest.parts]
        yield span._replace(from_ms=to_ms, parts=tuple(part for part in left if part.ms))


def _may_be_stalled(part: Part) -> bool:
    is_work = part.bucket is Bucket.PRODUCTIVE and part.cause != causes.VALIDATION
    return is_work or part.bucket in _WAITS


def _less(parts: Sequence[Part], stalled_ms: int, waited_ms: Mapping[Bucket, int]) -> tuple[Part, ...]:
    """A step that does not end mostly waits for something, and tells so: what is stalled is not booked as
    that wait, too. The longest one comes first, then work, and what these do not have is other waits'."""
    left = [part.ms for part in parts]
    waits = [at for at, part in enumerate(parts) if part.bucket in _WAITS]
    waits.sort(key=lambda at: -waited_ms[parts[at].bucket])
    work = [at for at, part in enumerate(parts) if _may_be_stalled(part) and at not in waits]
    takes = [(at, waited_ms[parts[at].bucket]) for at in waits]
    takes += [(at, stalled_ms) for at in (*work, *waits)]
    for at, most_ms in takes:
        taken = min(stalled_ms, left[at], most_ms)
        left[at] -= taken
        stalled_ms -= taken
    return tuple(part._replace(ms=ms) for part, ms in zip(parts, left, strict=True) if ms)
