"""Ranks that tell nothing of themselves: the GPUs that they are on belong to their run all the same.

Often only rank 0 has the SDK. It tells how many ranks there are, so the others are somewhere: on those GPUs
of its workload on which no program tells of a run. What they did there only coarser signals know.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from trilens.ledger.allocation.times import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.ledger.allocation.holding_time import Line
    from trilens.ledger.allocation.holdings import Holding
    from trilens.ledger.allocation.lives_held import Lives
    from trilens.ledger.allocation.times import Times
    from trilens.model.run import RunId
    from trilens.model.workload import WorkloadKey

_Job = tuple["WorkloadKey", int]  # and which life of it


def with_silent_ranks(lines: Sequence[Line], holdings: Sequence[Holding], lives: Lives) -> list[Line]:
    """In the same order. Where several runs of a workload go on at a time, it is nobody's."""
    incomplete = _incomplete(lives)
    times: defaultdict[_Job, defaultdict[RunId, Times]] = defaultdict(lambda: defaultdict(list))
    for line in lines if incomplete else ():
        if line.run is not None:
            times[_job(holdings[line.holding])][line.run].append((line.from_ms, line.to_ms))
    runs_of = {
        job: {run: joined(own) for run, own in of_job.items()}
        for job, of_job in times.items()
        if not incomplete.isdisjoint(of_job)
    }
    found: list[Line] = []
    for line in lines:
        runs = runs_of.get(_job(holdings[line.holding])) if runs_of and line.run is None else None
        found += [line] if runs is None else _divided(line, runs, incomplete)
    return found


def _job(holding: Holding) -> _Job:
    return holding.member.workload, holding.member.attempt


def _incomplete(lives: Lives) -> set[RunId]:
    """Runs that say that they have more ranks than tell."""
    ranks: defaultdict[RunId, set[int]] = defaultdict(set)
    sizes: dict[RunId, int] = {}
    for life in {id(life): life for of_holding in lives.values() for life in of_holding}.values():
        ranks[life.run].add(life.rank)
        sizes[life.run] = max(sizes.get(life.run, 0), life.world_size or 0)
    return {run for run, told in ranks.items() if len(told) < sizes[run]}


def _divided(line: Line, runs: Mapping[RunId, Times], incomplete: set[RunId]) -> Iterator[Line]:
    edges = {t for times in runs.values() for time in times for t in time if line.from_ms < t < line.to_ms}

    def whose(moment: tuple[int, int]) -> RunId | None:
        there = [run for run, times in runs.items() if any(a <= moment[0] < b for a, b in times)]
        return there[0] if len(there) == 1 and there[0] in incomplete else None

    for run, moments in groupby(pairwise(sorted({line.from_ms, *edges, line.to_ms})), key=whose):
        begin, *_, end = (t for moment in moments for t in moment)
        yield line._replace(run=run, from_ms=begin, to_ms=end)
