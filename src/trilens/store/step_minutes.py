"""The steps of many lives, added up by minute in the engine, and those next to a span of time.

A step is found by when it ended, which an index of the table knows, whenever it came in. Times are moved to
the clock of rank 0 before anything is compared with them, by as much as each life's own clock is off.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.model.ledger_facts import (
    LastStep,
    LifeKey,
    StepMinutes,
    no_minutes,
)
from trilens.store import sql
from trilens.store.run_rows import POSITIONS, STEPS, position_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.store.engine import Engine

_MINUTE_US: Final = 60_000_000
_HOUR_US: Final = 60 * _MINUTE_US
_BESIDE_US: Final = 2 * _MINUTE_US  # the steps next to a span are nearly always as near as this
_FURTHER_US: Final = (_HOUR_US, 24 * _HOUR_US, 1 << 60)  # looked for in this order, by the few that are not
_NEAR_US: Final = _MINUTE_US  # clocks that are off by less are asked for together

_END: Final = "start_us + us"  # as the index has it
_PHASES: Final = ("data_us", "sync_us", "checkpoint_us", "device_us", "device_sync_us")
_DONE: Final = ("tokens", "samples")
_READ: Final = ", ".join(("step", "n", "us", *_PHASES, *_DONE))
_SUMS: Final = {
    "step_us": "all_us",
    **{name: f"all_{name}" for name in (*_PHASES, *_DONE)},
}
_BEFORE, _WITHIN, _AFTER = range(3)  # a span: its sides
_WIDE: Final = tuple(
    one.name for one in fields(StepMinutes) if one.name not in ("runs", "run", "rank", "attempt", "minute")
)


class LifeClock(NamedTuple):
    life: LifeKey
    offset_us: int  # what to add to its clock to have rank 0's


class NearSteps(NamedTuple):
    minutes: StepMinutes
    earlier: dict[LifeKey, LastStep]
    later: dict[LifeKey, LastStep]


class _Range(NamedTuple):
    """Of when steps ended, in rank 0's time; `to_us` not included."""

    from_us: int
    to_us: int


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
    reading = _Reading(engine, from_us, to_us, guard, work_done=work_done)
    beside = _Range(from_us - _BESIDE_US, to_us + _BESIDE_US)
    pieces = [reading.minutes(clocks, {clock.life.run: one for clock in clocks}) for one in _hours(beside)]
    found = _Minutes.of([*clocks], pieces)
    earlier = found.of_side(_BEFORE).nearest(last=True)
    later = found.of_side(_AFTER).nearest(last=False)
    spans = _Spans(engine, [c for c in clocks if c.life not in earlier or c.life not in later], guard)
    for seen_us, further_us in pairwise((_BESIDE_US, *_FURTHER_US)):
        before = {c: spans.before(c, from_us, seen_us, further_us) for c in clocks if c.life not in earlier}
        earlier |= reading.nearest(before, last=True)
        after = {c: spans.after(c, to_us, further_us) for c in clocks if c.life not in later}
        later |= reading.nearest(after, last=False)
    return NearSteps(found.of_side(_WITHIN).step_minutes(), earlier, later)


@dataclass(frozen=True, slots=True)
class _Minutes:
    """Rows by life, minute and side of the span."""

    lives: Sequence[LifeKey]  # what `life` counts: by run, rank and attempt
    life: NDArray[np.int64]
    minute: NDArray[np.int64]
    side: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(cls, clocks: Iterable[LifeClock], pieces: Sequence[pa.Table]) -> _Minutes:
        """Sorted here: the engine takes as long for that as for everything else."""
        lives, found = _in_order(clocks), pa.concat_tables(pieces)
        key = found["key"].to_numpy()
        order = np.argsort(key)
        key = key[order]
        columns = {name: found[name].to_numpy()[order] for name in found.column_names if name != "key"}
        return cls(lives, key >> 32, (key & 0xFFFFFFFF) >> 2, key & 3, columns)

    def of_side(self, side: int) -> _Minutes:
        these = self.side == side
        columns = {name: column[these] for name, column in self.columns.items()}
        return _Minutes(self.lives, self.life[these], self.minute[these], self.side[these], columns)

    def nearest(self, *, last: bool) -> dict[LifeKey, LastStep]:
        """Of the first or the last row of each life."""
        if not len(self.life):
            return {}
        changes = np.flatnonzero(self.life[1:] != self.life[:-1])
        at = np.append(changes, len(self.life) - 1) if last else np.insert(changes + 1, 0, 0)
        which = "last" if last else "first"
        names = (
            "steps",
            "first_end_us",
            "last_end_us",
            f"{which}_step",
            f"{which}_start_us",
            f"{which}_end_us",
        )
        rows = zip(*(self.columns[name][at].tolist() for name in names), strict=True)
        found = {}
        for life, (steps, first_us, last_us, step, start_us, end_us) in zip(
            self.life[at].tolist(), rows, strict=True
        ):
            pace_us = (last_us - first_us) // (steps - 1) if steps > 1 else None
            found[self.lives[life]] = LastStep(step, start_us, end_us, pace_us)
        return found

    def step_minutes(self) -> StepMinutes:
        runs = sorted({life.run for life in self.lives})
        codes = {run: code for code, run in enumerate(runs)}
        whose = np.array([(codes[life.run], life.rank, life.attempt) for life in self.lives], np.int32)
        run, rank, attempt = whose[self.life].T.copy()
        wide = (self.columns[_SUMS.get(name, name)] for name in _WIDE)
        return StepMinutes(tuple(runs), run, rank, attempt, self.minute, *wide)


class _Reading:
    def __init__(
        self, engine: Engine, from_us: int, to_us: int, guard: QueryGuard | None, *, work_done: bool
    ) -> None:
        self._engine = engine
        self._from_us = from_us
        self._to_us = to_us
        self._guard = guard
        self._work_done = work_done

    def minutes(
        self, clocks: Collection[LifeClock], ranges: Mapping[RunId, _Range], more: str = "1"
    ) -> pa.Table:
        """Rows of whole minutes, in no order."""
        lives = _in_order(clocks)
        first, last = min(one.from_us for one in ranges.values()), max(one.to_us for one in ranges.values())
        order = f"bitShiftLeft(t - {first}, 12) + bitAnd(n, 4095)"  # of two that end together
        told = {
            "steps": "toInt64(count())",
            "first_step": f"argMin(step, {order})",
            "last_step": f"argMax(step, {order})",
            "first_start_us": "min(start)",
            "first_end_us": "min(t)",
            "last_start_us": "max(start)",
            "last_end_us": "max(t)",
            "all_us": "sum(us)",
            **{f"all_{name}": f"sum({name})" for name in _PHASES},
            **{
                f"all_{name}": f"sum(ifNull({name}, 0))" if self._work_done else "toInt64(0)"
                for name in _DONE
            },
        }
        columns = ", ".join(f"{expression} AS {name}" for name, expression in told.items())
        side = f"(t >= {self._from_us}) + (t >= {self._to_us})"
        return self._engine.query_arrow(
            f"SELECT toInt64(life) * {1 << 32} + intDiv(t, {_MINUTE_US}) * 4 + {side} AS key, {columns} "
            f"FROM (SELECT {_numbers_of(lives)} AS life, {_offset(lives, clocks)} AS offset, "
            f"start_us + offset AS start, start_us + us + offset AS t, {_READ} FROM {STEPS.name} "
            f"WHERE {_among(clocks, ranges)} AND {more}) "
            f"WHERE life >= 0 AND t >= {first} AND t < {last} GROUP BY key",
            guard=self._guard,
        )

    def nearest(self, wanted: Mapping[LifeClock, _Range | None], *, last: bool) -> dict[LifeKey, LastStep]:
        """The last before the span, or the first after it, of those that have one in their range."""
        asked = {clock: one for clock, one in wanted.items() if one is not None}
        if not asked:
            return {}
        ranges: dict[RunId, _Range] = {}
        for clock, one in asked.items():
            known = ranges.get(clock.life.run, one)
            ranges[clock.life.run] = _Range(min(known.from_us, one.from_us), max(known.to_us, one.to_us))
        ranks = sorted({(clock.life.run, clock.life.rank) for clock in asked})
        of_ranks = ", ".join(f"({sql.text(run)}, {rank})" for run, rank in ranks)
        found = _Minutes.of(asked, [self.minutes(asked, ranges, f"(run, rank) IN ({of_ranks})")])
        nearest = found.of_side(_BEFORE if last else _AFTER).nearest(last=last)
        return {
            life: step
            for life, step in nearest.items()
            if ranges[life.run].from_us <= step.end_us < ranges[life.run].to_us
        }


class _Spans:
    """Where the steps of some lives lie, in rank 0's time. Ranges are of whole minutes."""

    def __init__(self, engine: Engine, clocks: Collection[LifeClock], guard: QueryGuard | None) -> None:
        offsets = dict(clocks)
        self._of: defaultdict[LifeKey, list[_Range]] = defaultdict(list)
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
                    self._of[life].append(_Range(span.start_us + offset, span.end_us + offset))

    def before(self, clock: LifeClock, from_us: int, seen_us: int, further_us: int) -> _Range | None:
        """Where to look for the last step before `from_us`; None where it is nearer than that, or further."""
        begun = [span for span in self._of.get(clock.life, ()) if span.from_us < from_us]
        if not begun or min(begun).from_us >= from_us - seen_us:
            return None
        lasts = any(span.to_us >= from_us for span in begun)
        if further_us != _FURTHER_US[-1]:
            near = lasts or max(span.to_us for span in begun) >= from_us - further_us
            return _Range(_minute(from_us - further_us), from_us) if near else None
        if lasts:
            return _Range(_minute(min(begun).from_us), from_us)
        end = max(span.to_us for span in begun)
        return _Range(_minute(end), end + 1)

    def after(self, clock: LifeClock, to_us: int, further_us: int) -> _Range | None:
        """The same of the first step that ends at `to_us` or later."""
        ended = [span for span in self._of.get(clock.life, ()) if span.to_us >= to_us]
        if not ended:
            return None
        begun = max(to_us, min(ended).from_us)
        if further_us != _FURTHER_US[-1]:
            return _Range(to_us, _minute(to_us + further_us)) if begun < to_us + further_us else None
        return _Range(_minute(begun), _minute(max(span.to_us for span in ended)) + _MINUTE_US)


def _among(clocks: Iterable[LifeClock], ranges: Mapping[RunId, _Range]) -> str:
    """By their own clocks. Runs with the same range and clocks that are right are one term: each would be
    tried on every row."""
    offsets: defaultdict[RunId, list[int]] = defaultdict(list)
    for clock in clocks:
        offsets[clock.life.run].append(clock.offset_us)
    together: defaultdict[_Range, list[RunId]] = defaultdict(list)
    for run, of_run in offsets.items():
        least, most = min(of_run), max(of_run)
        if least >= -_NEAR_US and most <= _NEAR_US:
            least, most = -_NEAR_US, _NEAR_US
        wanted = ranges[run]
        together[_Range(wanted.from_us - most, wanted.to_us - least)].append(run)
    terms = (
        f"(run IN {sql.text_list(sorted(runs))} AND {_END} >= {one.from_us} AND {_END} < {one.to_us})"
        for one, runs in together.items()
    )
    return f"({' OR '.join(terms)})"


def _numbers_of(lives: Sequence[LifeKey]) -> str:
    """Which of these a row is of, as a number; -1 for any other."""
    runs = ", ".join(sql.text(life.run) for life in lives)
    ranks, attempts = (
        ", ".join(map(str, column)) for column in zip(*(life[1:] for life in lives), strict=True)
    )
    hashes = (
        "arrayMap((run, rank, attempt) -> cityHash64(run, toInt64(rank), toInt64(attempt)), "
        f"[{runs}], [{ranks}], [{attempts}])"
    )
    of_row = "cityHash64(toString(run), toInt64(rank), toInt64(attempt))"
    return f"transform({of_row}, {hashes}, range({len(lives)})::Array(Int32), toInt32(-1))"


def _offset(lives: Iterable[LifeKey], clocks: Iterable[LifeClock]) -> str:
    """What to add to a row's times, by its life."""
    offsets = {clock.life: clock.offset_us for clock in clocks}
    if not any(offsets.values()):
        return "toInt64(0)"
    return f"[{', '.join(str(offsets[life]) for life in lives)}]::Array(Int64)[life + 1]"


def _in_order(clocks: Iterable[LifeClock]) -> list[LifeKey]:
    return sorted(clock.life for clock in clocks)


def _hours(whole: _Range) -> list[_Range]:
    """One after the other, so that what the engine needs for a day is not more than for an hour."""
    edges = range(_minute(whole.from_us) + _HOUR_US, whole.to_us - _HOUR_US // 2, _HOUR_US)
    return [_Range(*edge) for edge in pairwise((whole.from_us, *edges, whole.to_us))]


def _minute(moment_us: int) -> int:
    """Its beginning."""
    return moment_us // _MINUTE_US * _MINUTE_US
