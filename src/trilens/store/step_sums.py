"""The steps of many lives, added up in the engine by the minute in which they ended.

A step is found by when it ended, which an index of the table knows, whenever it came in. Times are moved to
the clock of rank 0 before anything is compared with them, by as much as each life's own clock is off.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from trilens.model.ledger_facts import RankSteps, StepMinutes
from trilens.store import sql
from trilens.store.life_numbers import LifeNumbers
from trilens.store.run_rows import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.store.engine import Engine
    from trilens.store.life_numbers import LifeClock

MINUTE_US: Final = 60_000_000
_NEAR_US: Final = MINUTE_US  # clocks that are off by less are asked for together

# The engine needs some 200 bytes for a row. It is rather fewer lives at once than a shorter time: of small
# runs many hours lie together, and are read for one of them too.
_LIVES_AT_ONCE: Final = 1_250  # but for those of one run
_ROWS_AT_ONCE: Final = 600_000

_END: Final = "start_us + us"  # as the index has it
_PHASES: Final = ("data_us", "sync_us", "checkpoint_us", "device_us", "device_sync_us")
_DONE: Final = ("tokens", "samples")

# When in its minute a step ended, and its number, as one: the smallest of a minute is that of its first step.
# Sums and extremes of whole numbers the engine compiles into one loop, argMin and argMax it does not. Of the
# number only so many bits have room; the lowest of the minute tells the others.
_STEP_BITS: Final = 37
_STEP_MASK: Final = (1 << _STEP_BITS) - 1
_MOMENT: Final = f"bitShiftLeft(t % {MINUTE_US}, {_STEP_BITS}) + bitAnd(step, {_STEP_MASK})"
_SUMS: Final = {
    "steps": "toInt64(count())",
    "lowest_step": "min(step)",
    "first_moment": "min(moment)",
    "last_moment": "max(moment)",
    "first_start_us": "min(start)",
    "step_us": "sum(us)",
    # Most are 0 in most runs, and kept as such: the loop takes only columns that are written out.
    **{name: f"sum(materialize({name}))" for name in _PHASES},
}
_SUMS_OF_WORK: Final = {name: f"sum(ifNull({name}, 0))" for name in _DONE}
_IN_NO_HURRY: Final = {"max_threads": 1}  # two are a little quicker, and take a tenth more of the processor
_MINUTE_BITS: Final = 28  # more minutes than have gone since 1970
_COLUMNS: Final = [one.name for one in fields(StepMinutes) if one.name != "runs"]

_Columns: TypeAlias = dict[str, "NDArray[Any]"]


class TimeRange(NamedTuple):
    """Of when steps ended, in rank 0's time; `to_us` not included."""

    from_us: int
    to_us: int


class MinutesAround(NamedTuple):
    before: StepMinutes
    within: StepMinutes
    after: StepMinutes


class StepReader:
    """Of what lies before a span of time, within it and after it."""

    def __init__(self, engine: Engine, span: TimeRange, guard: QueryGuard | None, *, work_done: bool) -> None:
        """Without `work_done`, tokens and samples are 0: these two of fifteen figures take a third of the
        time."""
        self._engine = engine
        self._span = span
        self._guard = guard
        self._sums = _SUMS | _SUMS_OF_WORK if work_done else _SUMS

    def around(self, clocks: Sequence[LifeClock], whole: TimeRange) -> MinutesAround:
        """Of all steps in a range of time, which may be long."""
        return self._read(
            clocks,
            lambda numbers: [
                dict.fromkeys(numbers.offsets, some) for some in _some_time(whole, len(numbers.clocks))
            ],
        )

    def in_ranges(self, clocks: Iterable[LifeClock], ranges: Mapping[RunId, TimeRange]) -> MinutesAround:
        """Of the steps in the ranges of their runs, and of some more."""
        return self._read(clocks, lambda numbers: [{run: ranges[run] for run in numbers.offsets}])

    def _read(
        self,
        clocks: Iterable[LifeClock],
        asked: Callable[[LifeNumbers], Sequence[Mapping[RunId, TimeRange]]],
    ) -> MinutesAround:
        in_order = sorted(clocks)
        runs = tuple(dict.fromkeys(clock.life.run for clock in in_order))
        pieces = []
        for some in _some_lives(in_order):
            numbers = LifeNumbers(some)
            told = [self._added_up(numbers, ranges) for ranges in asked(numbers)]
            pieces.append(_sorted(pa.concat_tables(told), numbers, runs.index(some[0].life.run)))
        return _around(runs, pieces)

    def _added_up(self, numbers: LifeNumbers, ranges: Mapping[RunId, TimeRange]) -> pa.Table:
        """In no order, and with other lives of these runs: for sorting and telling them apart the engine
        takes as long as for everything else."""
        first = min(one.from_us for one in ranges.values())
        end = max(one.to_us for one in ranges.values())
        side = f"toUInt32((t >= {self._span.from_us}) + (t >= {self._span.to_us}))"
        return self._engine.query_arrow(
            f"SELECT {numbers.place_of('whose')} AS life, "
            f"toUInt32(bitShiftLeft({side}, {_MINUTE_BITS}) + intDiv(t, {MINUTE_US})) AS slot, "
            f"{', '.join(f'{expression} AS all_{name}' for name, expression in self._sums.items())} "
            f"FROM (SELECT {numbers.of_row} AS whose, {numbers.offset_of('whose')} AS offset, "
            f"start_us + offset AS start, start + us AS t, {_MOMENT} AS moment, "
            f"step, us, {', '.join((*_PHASES, *_DONE))} FROM {STEPS.name} "
            f"WHERE {_ended_in(ranges, numbers.offsets)}) "
            f"WHERE t >= {first} AND t < {end} GROUP BY whose, slot",
            guard=self._guard,
            settings=_IN_NO_HURRY,
        )


def rank_steps(
    engine: Engine, clocks: Iterable[LifeClock], span: TimeRange, guard: QueryGuard | None
) -> RankSteps:
    """By life alone, which takes a tenth of the time of minutes."""
    in_order = sorted(clocks)
    runs = {run: place for place, run in enumerate(dict.fromkeys(clock.life.run for clock in in_order))}
    rows: list[tuple[int, ...]] = []
    for some in _some_lives(in_order):
        numbers, lives = LifeNumbers(some), {clock.life for clock in some}
        is_off = any(clock.offset_us for clock in some)
        offset = numbers.offset_of(f"({numbers.of_row})") if is_off else "0"
        found = engine.query_arrow(
            "SELECT run, rank, attempt, toInt64(count()) AS steps, "
            f"{', '.join(f'{expression} AS all_{name}' for name, expression in _SUMS_OF_WORK.items())} "
            f"FROM (SELECT run, rank, attempt, start_us + us + {offset} AS t, {', '.join(_DONE)} "
            f"FROM {STEPS.name} "
            f"WHERE {_ended_in(dict.fromkeys(numbers.offsets, span), numbers.offsets)}) "
            f"WHERE t >= {span.from_us} AND t < {span.to_us} GROUP BY run, rank, attempt",
            guard=guard,
            settings=_IN_NO_HURRY,
        )
        for run, rank, attempt, *told in zip(*(column.to_pylist() for column in found.columns), strict=True):
            if (run, rank, attempt) in lives:
                rows.append((runs[run], rank, *told))
    place, rank, *done = np.array(sorted(rows), np.int64).reshape(-1, 5).T
    return RankSteps((*runs,), place.astype(np.int32), rank.astype(np.int32), *done)


def _some_lives(clocks: Sequence[LifeClock]) -> Iterator[list[LifeClock]]:
    """Whole runs, as many as are to be asked for at once."""
    some: list[LifeClock] = []
    for _, of_run in groupby(clocks, key=lambda clock: clock.life.run):
        more = [*of_run]
        if some and len(some) + len(more) > _LIVES_AT_ONCE:
            yield some
            some = []
        some += more
    if some:
        yield some


def _some_time(whole: TimeRange, lives: int) -> list[TimeRange]:
    """In pieces of as many whole minutes as are to be asked for at once."""
    length_us = max(_ROWS_AT_ONCE // lives, 60) * MINUTE_US
    edges = range(minute_of(whole.from_us) + length_us, whole.to_us - length_us // 2, length_us)
    return [TimeRange(*edge) for edge in pairwise((whole.from_us, *edges, whole.to_us))]


def _ended_in(ranges: Mapping[RunId, TimeRange], offsets: Mapping[RunId, Sequence[int]]) -> str:
    """By their own clocks. Runs with the same range and clocks that are right are one term: each would be
    tried on every row."""
    together: defaultdict[TimeRange, list[RunId]] = defaultdict(list)
    for run, wanted in ranges.items():
        least, most = min(offsets[run]), max(offsets[run])
        if least >= -_NEAR_US and most <= _NEAR_US:
            least, most = -_NEAR_US, _NEAR_US
        together[TimeRange(wanted.from_us - most, wanted.to_us - least)].append(run)
    return " OR ".join(
        f"(run IN {sql.text_list(runs)} AND {_END} >= {one.from_us} AND {_END} < {one.to_us})"
        for one, runs in together.items()
    )


def _sorted(found: pa.Table, numbers: LifeNumbers, runs_before: int) -> _Columns:
    """By side, life and minute."""
    life, slot = (found[name].to_numpy().astype(np.int64) for name in ("life", "slot"))
    side, minute = slot >> _MINUTE_BITS, slot & (1 << _MINUTE_BITS) - 1
    order = np.argsort((side * len(numbers.clocks) + life << _MINUTE_BITS) + minute)
    if life.min(initial=0) < 0:
        order = order[life[order] >= 0]
    minute, life = minute[order], life[order]
    columns = {"side": side[order], "minute": minute, "run": numbers.run[life] + np.int32(runs_before)}
    columns |= {"rank": numbers.rank[life], "attempt": numbers.attempt[life]}
    told = {name.removeprefix("all_"): found[name].to_numpy()[order] for name in found.column_names[2:]}
    lowest = told.pop("lowest_step")
    for which in ("first", "last"):
        moment = told.pop(f"{which}_moment")
        columns[f"{which}_step"] = lowest + (moment - lowest & _STEP_MASK)
        columns[f"{which}_end_us"] = minute * MINUTE_US + (moment >> _STEP_BITS)
    return columns | told


def _around(runs: tuple[RunId, ...], pieces: Sequence[_Columns]) -> MinutesAround:
    """Of the pieces nothing is left: both together would take twice the memory."""
    edges = [np.searchsorted(piece["side"], range(4)).tolist() for piece in pieces]
    sides: tuple[_Columns, ...] = ({}, {}, {})
    for name in _COLUMNS:
        nothing = [np.zeros(edge[-1], np.int64) for edge in edges]
        columns = [piece.pop(name, none) for piece, none in zip(pieces, nothing, strict=True)]
        for side, told in enumerate(sides):
            told[name] = _joined(
                [column[edge[side] : edge[side + 1]] for column, edge in zip(columns, edges, strict=True)]
            )
    return MinutesAround(*(StepMinutes(runs, **told) for told in sides))


def _joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """One alone is not copied: it may be large."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def minute_of(moment_us: int) -> int:
    """Its beginning."""
    return moment_us // MINUTE_US * MINUTE_US
