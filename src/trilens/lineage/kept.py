"""Which steps of a run lead to how it stands: those of its last stretch, of the one that this went on from,
and so on.

From the records of a run alone, without asking for its steps: for many runs at a time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.lineage.origins import origin
from trilens.lineage.stretches import stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trilens.lineage.stretches import Stretch
    from trilens.model.run import CheckpointRecord, RankProcess
    from trilens.model.run_sums import AttemptSpan


class Kept(NamedTuple):
    """Of one stretch: its steps up to `last_step`, None for none of them, and the checkpoint that holds
    them."""

    stretch: Stretch
    last_step: int | None
    held_by: CheckpointRecord | None = None


def kept_steps(
    spans: Sequence[AttemptSpan],
    processes: Iterable[RankProcess],
    checkpoints: Iterable[CheckpointRecord],
) -> list[Kept]:
    """Of each stretch, in the order in which they began."""
    told = sorted(checkpoints, key=lambda one: (one.start_ms, one.rank, one.n))
    loads = [one for one in told if one.loaded and one.ok]
    written = written_once(told)
    found = stretches([*_cut_at_loads(spans, loads)], processes, loads)
    kept = [Kept(one, None) for one in found]
    at = len(found) - 1
    if at >= 0:
        kept[at] = Kept(found[at], found[at].last_step)
    while at > 0:
        began = origin(found[at], found[:at], written, lambda _: ())
        if began.step is None:
            break
        held_by = began.written
        # Who counts the steps done names a checkpoint after the one that comes next.
        step = min(began.step if held_by is None else held_by.step, found[at].first_step - 1)
        before = _written_in(held_by, found[:at]) if held_by is not None else _reaching(found[:at], step)
        if step >= found[before].first_step:
            kept[before] = Kept(found[before], min(step, found[before].last_step), held_by)
        at = before
    return kept


def written_once(checkpoints: Iterable[CheckpointRecord]) -> list[CheckpointRecord]:
    """Of those that all ranks write together, what the lowest of them tells; none where any failed. A rank
    may try again."""
    by_step: defaultdict[tuple[int, int], dict[int, CheckpointRecord]] = defaultdict(dict)
    for one in sorted(checkpoints, key=lambda one: one.n):
        if not one.loaded:
            by_step[one.attempt, one.step][one.rank] = one
    good = [by_rank[min(by_rank)] for by_rank in by_step.values() if all(one.ok for one in by_rank.values())]
    return sorted(good, key=lambda one: (one.start_ms, one.n))


def _cut_at_loads(spans: Iterable[AttemptSpan], loads: Iterable[CheckpointRecord]) -> Iterator[AttemptSpan]:
    """A process that loads something and goes on with a higher step has gone another way since: its steps
    after that one. The wait for the data of a first step may begin before what it goes on from is loaded."""
    of_life: defaultdict[tuple[int, int], list[CheckpointRecord]] = defaultdict(list)
    for load in loads:
        of_life[load.rank, load.attempt].append(load)
    for span in spans:
        for load in of_life.get((span.rank, span.attempt), ()):
            at_us = load.start_ms * 1000
            if not span.start_us < at_us < span.end_us:
                continue
            if load.step in (span.first_step - 1, span.first_step):
                span = span._replace(start_us=at_us)
            elif span.first_step < load.step < span.last_step:
                yield span._replace(last_step=load.step, end_us=at_us)
                span = span._replace(first_step=load.step + 1, start_us=at_us, first_n=span.first_n + 1)
        yield span


def _written_in(one: CheckpointRecord, earlier: Sequence[Stretch]) -> int:
    """In which stretch its rank was when it wrote it; the time alone tells of a rank that does no steps."""
    begun = [
        (span.start_us, stretch.index)
        for stretch in earlier
        for span in stretch.spans
        if (span.rank, span.attempt) == (one.rank, one.attempt)
    ] or [(stretch.start_us, stretch.index) for stretch in earlier]
    at_us = one.start_ms * 1000 + 999
    return max((each for each in begun if each[0] <= at_us), default=min(begun))[1]


def _reaching(earlier: Sequence[Stretch], step: int) -> int:
    """The latest that came as far, or else the one that came farthest."""
    reached = [one.index for one in earlier if one.last_step >= step]
    return reached[-1] if reached else max(earlier, key=lambda one: (one.last_step, one.index)).index
