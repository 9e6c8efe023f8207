"""Which lives of the ranks went forward together.

A job that falls over starts all its ranks again, and goes on from a checkpoint: what lies between two such
beginnings is a stretch. Attempts are counted for each rank by itself, so they do not tell it: a rank may have
fallen over once more before its first step, and a job may come back with more ranks or fewer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.run import CheckpointRecord, RankProcess
    from trilens.model.run_sums import AttemptSpan


@dataclass(frozen=True, slots=True)
class Stretch:
    """Ways forward of one or more ranks, at one time. `loads` are what they last loaded before it."""

    index: int
    spans: tuple[AttemptSpan, ...]
    loads: tuple[CheckpointRecord, ...]
    world_size: int | None
    first_step: int
    last_step: int
    start_us: int

    @property
    def attempts(self) -> list[int]:
        return sorted({span.attempt for span in self.spans})

    @property
    def ranks(self) -> set[int]:
        return {span.rank for span in self.spans}


@dataclass(slots=True)
class _Way:
    """A span with the time of its process, by the clock of rank 0 as far as that is known."""

    span: AttemptSpan
    load: CheckpointRecord | None
    world_size: int | None
    start_us: int
    gone_us: int


class _Open:
    """A stretch that others may still join."""

    def __init__(self, first: _Way) -> None:
        self.ways = [first]
        self._gone_us = first.gone_us
        self._last_step = {first.span.rank: first.span.last_step}

    def takes(self, way: _Way) -> bool:
        if way.world_size is not None and self.ways[0].world_size not in (None, way.world_size):
            return False
        if way.start_us >= self._gone_us:
            return False
        done = self._last_step.get(way.span.rank)
        return done is None or (way.span.first_step > done and way.load is None)

    def add(self, way: _Way) -> None:
        self.ways.append(way)
        self._gone_us = max(self._gone_us, way.gone_us)
        done = self._last_step.get(way.span.rank, way.span.last_step)
        self._last_step[way.span.rank] = max(done, way.span.last_step)


def stretches(
    spans: Sequence[AttemptSpan],
    processes: Iterable[RankProcess],
    loads: Iterable[CheckpointRecord],
) -> list[Stretch]:
    """In the order in which they began."""
    found: list[_Open] = []
    for way in sorted(_ways(spans, processes, loads), key=lambda way: (way.start_us, way.span.rank)):
        if found and found[-1].takes(way):
            found[-1].add(way)
        else:
            found.append(_Open(way))
    return [_closed(index, one.ways) for index, one in enumerate(found)]


def _ways(
    spans: Sequence[AttemptSpan],
    processes: Iterable[RankProcess],
    loads: Iterable[CheckpointRecord],
) -> Iterable[_Way]:
    process_of = {(process.rank, process.attempt): process for process in processes}
    loads_of: defaultdict[tuple[int, int], list[CheckpointRecord]] = defaultdict(list)
    for load in sorted(loads, key=lambda load: (load.start_ms, load.n)):
        loads_of[load.rank, load.attempt].append(load)
    by_life: defaultdict[tuple[int, int], list[AttemptSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.first_n):
        by_life[span.rank, span.attempt].append(span)
    for life, of_life in by_life.items():
        process = process_of.get(life)
        shift_us = (process.clock_offset_us or 0) if process is not None else 0
        before_us = 0
        for span in of_life:
            yield _Way(
                span,
                _last_between(loads_of[life], before_us, span.start_us),
                process.world_size if process is not None else None,
                span.start_us + shift_us,
                max(span.end_us, _last_heard_us(process)) + shift_us,
            )
            before_us = span.end_us


def _last_heard_us(process: RankProcess | None) -> int:
    if process is None:
        return 0
    return (process.ended_ms if process.ended_ms is not None else process.heard_ms) * 1000


def _last_between(loads: Sequence[CheckpointRecord], after_us: int, until_us: int) -> CheckpointRecord | None:
    """A load's time is in whole milliseconds."""
    between = [
        one for one in loads if after_us <= one.start_ms * 1000 + 999 and one.start_ms * 1000 <= until_us
    ]
    return between[-1] if between else None


def _closed(index: int, ways: Sequence[_Way]) -> Stretch:
    spans = sorted((way.span for way in ways), key=lambda span: (span.rank, span.attempt, span.first_n))
    return Stretch(
        index,
        tuple(spans),
        tuple(way.load for way in ways if way.load is not None),
        ways[0].world_size,
        min(span.first_step for span in spans),
        max(span.last_step for span in spans),
        min(way.start_us for way in ways),
    )
