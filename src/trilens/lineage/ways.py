"""Ways forward, cut where a process loaded something and yet went on with a higher step.

That it went back shows in the numbers of its steps, and whoever keeps them cuts there. This does not, and is
rare: then the steps themselves are read. What is loaded before the first step ends is loaded before it: the
time in which a step waits for its data counts as its own.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import CheckpointRecord, RunId, StepRecord
    from trilens.model.run_sums import AttemptSpan

_PAGE: Final = 10_000
_MOST_RECORDS: Final = 100_000  # of one step: every rank, in every attempt


def cut_at_loads(
    source: RunSource,
    run: RunId,
    spans: Iterable[AttemptSpan],
    loads: Mapping[tuple[int, int], Sequence[CheckpointRecord]],
    guard: QueryGuard | None,
) -> list[AttemptSpan]:
    """`loads` are those of each rank and attempt."""
    found: list[AttemptSpan] = []
    first_ends: dict[int, dict[tuple[int, int, int], int]] = {}  # of a step: once for all ranks
    for span in spans:
        moments_us = [load.start_ms * 1000 for load in loads.get((span.rank, span.attempt), [])]
        inside_us = sorted(moment for moment in moments_us if span.start_us <= moment < span.end_us)
        if not inside_us:
            found.append(span)
            continue
        step = span.first_step
        if step not in first_ends:
            first_ends[step] = _ends(source.steps(run, step, step, limit=_MOST_RECORDS, guard=guard))
        first_end_us = first_ends[step].get((span.rank, span.attempt, span.first_n), span.start_us)
        later_us = [moment for moment in inside_us if moment >= first_end_us]
        before = [moment for moment in inside_us if moment < first_end_us]
        begun = span._replace(start_us=max(span.start_us, *before)) if before else span
        found += _cut(_steps(source, run, span, guard), later_us, begun) if later_us else [begun]
    return found


def _ends(steps: Iterable[StepRecord]) -> dict[tuple[int, int, int], int]:
    return {(one.rank, one.attempt, one.n): _end_us(one) for one in steps}


def _end_us(step: StepRecord) -> int:
    return step.start_us + step.duration_us


def _cut(steps: Iterable[StepRecord], moments_us: Sequence[int], whole: AttemptSpan) -> Iterator[AttemptSpan]:
    begin_us = [whole.start_us, *moments_us]
    for loads, way in groupby(steps, key=lambda one: sum(_end_us(one) > moment for moment in moments_us)):
        yield _span([*way], whole, begin_us[loads])


def _steps(
    source: RunSource, run: RunId, span: AttemptSpan, guard: QueryGuard | None
) -> Iterator[StepRecord]:
    first, more = span.first_step, True
    while more:
        page = source.steps(run, first, span.last_step, rank=span.rank, limit=_PAGE, guard=guard)
        more = len(page) == _PAGE
        first = page[-1].step if page else first
        for one in page:
            its_own = one.attempt == span.attempt and span.first_n <= one.n <= span.last_n
            if its_own and not (more and one.step == first):  # of which the next page has all
                yield one


def _span(way: Sequence[StepRecord], whole: AttemptSpan, begin_us: int) -> AttemptSpan:
    """How many samples and tokens a part of it took is nobody's question."""
    first, last = way[0], way[-1]
    return whole._replace(
        first_step=first.step,
        last_step=last.step,
        records=len(way),
        samples=None,
        tokens=None,
        start_us=max(first.start_us, begin_us),
        end_us=_end_us(last),
        first_n=first.n,
        last_n=last.n,
    )
