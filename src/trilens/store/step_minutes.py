"""The minutes of a span of time in which steps ended, and of each life the steps next to it."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.ledger_facts import LastStep, LifeKey, StepMinutes, no_minutes
from trilens.store import sql
from trilens.store.run_rows import POSITIONS, position_of
from trilens.store.step_sums import MINUTE_US, StepReader, TimeRange, minute_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.store.engine import Engine
    from trilens.store.life_numbers import LifeClock

_HOUR_US: Final = 60 * MINUTE_US
_BESIDE_US: Final = 2 * MINUTE_US  # the steps next to a span are nearly always as near as this
_FURTHER_US: Final = (_HOUR_US, 24 * _HOUR_US, 1 << 60)  # looked for in this order, by the few that are not


class NearSteps(NamedTuple):
    minutes: StepMinutes
    earlier: dict[LifeKey, LastStep]
    later: dict[LifeKey, LastStep]


def near_steps(
    engine: Engine,
    clocks: Sequence[LifeClock],
    from_us: int,
    to_us: int,
    guard: QueryGuard | None,
    *,
    work_done: bool = True,
) -> NearSteps:
    """The minutes of a span, and of each life the step before it and the step after it. Without `work_done`,
    tokens and samples are 0: these two of fifteen figures take a third of the time."""
    if not clocks:
        return NearSteps(no_minutes(), {}, {})
    reader = StepReader(engine, TimeRange(from_us, to_us), guard, work_done=work_done)
    found = reader.around(clocks, TimeRange(from_us - _BESIDE_US, to_us + _BESIDE_US))
    earlier, later = _lasts(found.before), _firsts(found.after)
    spans = _Spans(engine, [c for c in clocks if c.life not in earlier or c.life not in later], guard)
    for seen_us, further_us in pairwise((_BESIDE_US, *_FURTHER_US)):
        before = {c: spans.before(c, from_us, seen_us, further_us) for c in clocks if c.life not in earlier}
        earlier |= _nearest(reader, before, last=True)
        after = {c: spans.after(c, to_us, further_us) for c in clocks if c.life not in later}
        later |= _nearest(reader, after, last=False)
    return NearSteps(found.within, earlier, later)


def _nearest(
    reader: StepReader, wanted: Mapping[LifeClock, TimeRange | None], *, last: bool
) -> dict[LifeKey, LastStep]:
    """The last before the span, or the first after it, of those that have one in their range."""
    asked = {clock: one for clock, one in wanted.items() if one is not None}
    if not asked:
        return {}
    ranges: dict[RunId, TimeRange] = {}
    for clock, one in asked.items():
        known = ranges.get(clock.life.run, one)
        ranges[clock.life.run] = TimeRange(min(known.from_us, one.from_us), max(known.to_us, one.to_us))
    found = reader.in_ranges(asked, ranges)
    nearest = _lasts(found.before) if last else _firsts(found.after)
    return {
        life: step
        for life, step in nearest.items()
        if ranges[life.run].from_us <= step.end_us < ranges[life.run].to_us
    }


def _lasts(minutes: StepMinutes) -> dict[LifeKey, LastStep]:
    return minutes.nearest(np.flatnonzero(np.roll(minutes.begins_life, -1)), is_last=True)


def _firsts(minutes: StepMinutes) -> dict[LifeKey, LastStep]:
    return minutes.nearest(np.flatnonzero(minutes.begins_life), is_last=False)


class _Spans:
    """Where the steps of some lives lie, in rank 0's time. Ranges are of whole minutes."""

    def __init__(self, engine: Engine, clocks: Collection[LifeClock], guard: QueryGuard | None) -> None:
        offsets = dict(clocks)
        self._of: defaultdict[LifeKey, list[TimeRange]] = defaultdict(list)
        if not clocks:
            return
        runs = sql.text_list(sorted({clock.life.run for clock in clocks}))
        found = engine.query_arrow(
            f"SELECT {POSITIONS.columns} FROM {POSITIONS.name} FINAL WHERE run IN {runs}", guard=guard
        )
        for position in map(position_of, found.to_pylist()):
            for span in position.spans:
                life = LifeKey(position.run, span.rank, span.attempt)
                if (offset := offsets.get(life)) is not None:
                    self._of[life].append(TimeRange(span.start_us + offset, span.end_us + offset))

    def before(self, clock: LifeClock, from_us: int, seen_us: int, further_us: int) -> TimeRange | None:
        """Where to look for the last step before `from_us`; None where it is nearer than that, or further."""
        begun = [span for span in self._of.get(clock.life, ()) if span.from_us < from_us]
        if not begun or min(begun).from_us >= from_us - seen_us:
            return None
        lasts = any(span.to_us >= from_us for span in begun)
        if further_us != _FURTHER_US[-1]:
            near = lasts or max(span.to_us for span in begun) >= from_us - further_us
            return TimeRange(minute_of(from_us - further_us), from_us) if near else None
        if lasts:
            return TimeRange(minute_of(min(begun).from_us), from_us)
        end = max(span.to_us for span in begun)
        return TimeRange(minute_of(end), end + 1)

    def after(self, clock: LifeClock, to_us: int, further_us: int) -> TimeRange | None:
        """The same of the first step that ends at `to_us` or later."""
        ended = [span for span in self._of.get(clock.life, ()) if span.to_us >= to_us]
        if not ended:
            return None
        begun = max(to_us, min(ended).from_us)
        if further_us != _FURTHER_US[-1]:
            return TimeRange(to_us, minute_of(to_us + further_us)) if begun < to_us + further_us else None
        return TimeRange(minute_of(begun), minute_of(max(span.to_us for span in ended)) + MINUTE_US)
