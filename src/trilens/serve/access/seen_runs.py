"""Runs as a sight shows them: a run is seen by who sees the workloads that it ran in, and by nobody else.

By who sees all of them, and where each of its processes is in one that is known: anybody who may send records
could tell that another's run is in a pod of his, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.model.errors import NotFound
from trilens.serve.access.seen_workloads import shown_keys
from trilens.serve.run_workloads import members_of, process_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.lineage.source import (
        ArtifactName,
        AttemptSpan,
        DatasetShare,
        LastSteps,
        Portion,
        RunSource,
        Sighting,
        Tail,
    )
    from trilens.model.query import QueryGuard
    from trilens.model.run import (
        ArtifactRecord,
        BatchRecord,
        CheckpointRecord,
        NoteRecord,
        RankProcess,
        RunFacts,
        RunId,
        StepRecord,
        ValidationRecord,
    )
    from trilens.model.run_curve import Curve
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight

_LOOKED_THROUGH: Final = 10_000  # the latest runs of all, for those that are seen
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class RunsSeen:
    """All runs, and what tells whose they are."""

    source: RunSource
    workloads: Workloads

    def by(self, sight: Sight) -> RunSource:
        """For one answer: what is found out is not asked again."""
        return self.source if sight.is_whole else _SeenRuns(self, sight)

    def shown(self, sight: Sight, runs: Sequence[RunId], guard: QueryGuard | None) -> frozenset[RunId]:
        """Which of these are seen."""
        if sight.is_whole:
            return frozenset(runs)
        processes = self.source.processes(runs, guard=guard)
        members = members_of(processes, self.workloads, guard)
        own = shown_keys(self.workloads, sight, {one.workload for one in members.values()}, guard)
        told = {one.run for one in processes}
        for one in processes:
            member = members.get(process_key(one))
            if member is None or member.workload not in own:
                told.discard(one.run)
        return frozenset(told)


def no_run(run: str) -> NotFound:
    return NotFound(f"no run {run!r} is known", hint="/api/runs has them all")


class _SeenRuns:
    """A RunSource. What is asked of a run that is not seen is answered as if there were none."""

    def __init__(self, every: RunsSeen, sight: Sight) -> None:
        self._every = every
        self._source = every.source
        self._sight = sight
        self._known: dict[RunId, bool] = {}

    def runs(
        self,
        *,
        run: RunId | None = None,
        experiment: str | None = None,
        since_ms: int | None = None,
        limit: int = 100,
        guard: QueryGuard | None = None,
    ) -> list[RunFacts]:
        found = self._source.runs(
            run=run, experiment=experiment, since_ms=since_ms, limit=_LOOKED_THROUGH, guard=guard
        )
        shown: list[RunFacts] = []
        for first in range(0, len(found), _AT_ONCE):
            some = found[first : first + _AT_ONCE]
            own = self._shown([one.run for one in some], guard)
            shown += [one for one in some if one.run in own]
            if len(shown) >= limit:
                break
        return shown[:limit]

    def processes(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> list[RankProcess]:
        return self._source.processes(self._own(runs, guard), guard=guard)

    def first_steps(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> Mapping[RunId, int]:
        return self._source.first_steps(self._own(runs, guard), guard=guard)

    def tails(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> list[StepRecord]:
        own = self._shown([one.run for one in wanted], guard)
        return self._source.tails([one for one in wanted if one.run in own], guard=guard)

    def latest(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> Mapping[RunId, LastSteps]:
        own = self._shown([one.run for one in wanted], guard)
        return self._source.latest([one for one in wanted if one.run in own], guard=guard)

    def sightings(
        self,
        sample: int | str,
        *,
        run: RunId | None = None,
        dataset: str | None = None,
        limit: int = 1_000,
        guard: QueryGuard | None = None,
    ) -> list[Sighting]:
        found = self._source.sightings(
            sample, run=run, dataset=dataset, limit=max(limit, _LOOKED_THROUGH), guard=guard
        )
        own = self._shown([one.run for one in found], guard)
        return [one for one in found if one.run in own][:limit]

    def written_at(self, path: str, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        found = self._source.written_at(path, guard=guard)
        own = self._shown([one.run for one in found], guard)
        return [one for one in found if one.run in own]

    # What is asked of one run.

    def spans(self, run: RunId, *, guard: QueryGuard | None = None) -> list[AttemptSpan]:
        return self._of(run, guard).spans(run, guard=guard)

    def steps(
        self,
        run: RunId,
        first: int,
        last: int,
        *,
        rank: int | None = None,
        limit: int = 10_000,
        guard: QueryGuard | None = None,
    ) -> list[StepRecord]:
        return self._of(run, guard).steps(run, first, last, rank=rank, limit=limit, guard=guard)

    def batches(
        self,
        run: RunId,
        first: int,
        last: int,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        limit: int = 10_000,
        guard: QueryGuard | None = None,
    ) -> list[BatchRecord]:
        return self._of(run, guard).batches(
            run, first, last, rank=rank, attempt=attempt, limit=limit, guard=guard
        )

    def shares(
        self, run: RunId, portions: Sequence[Portion], *, guard: QueryGuard | None = None
    ) -> list[DatasetShare]:
        return self._of(run, guard).shares(run, portions, guard=guard)

    def curve(
        self, run: RunId, value: str, first: int, last: int, *, guard: QueryGuard | None = None
    ) -> Curve:
        return self._of(run, guard).curve(run, value, first, last, guard=guard)

    def checkpoints(self, run: RunId, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        return self._of(run, guard).checkpoints(run, guard=guard)

    def validations(self, run: RunId, *, guard: QueryGuard | None = None) -> list[ValidationRecord]:
        return self._of(run, guard).validations(run, guard=guard)

    def notes(self, run: RunId, *, limit: int = 1_000, guard: QueryGuard | None = None) -> list[NoteRecord]:
        return self._of(run, guard).notes(run, limit=limit, guard=guard)

    def artifacts(
        self, run: RunId, *, rank: int | None = None, guard: QueryGuard | None = None
    ) -> list[ArtifactName]:
        return self._of(run, guard).artifacts(run, rank=rank, guard=guard)

    def artifact(
        self, run: RunId, rank: int, attempt: int, n: int, *, guard: QueryGuard | None = None
    ) -> ArtifactRecord | None:
        return self._of(run, guard).artifact(run, rank, attempt, n, guard=guard)

    def _of(self, run: RunId, guard: QueryGuard | None) -> RunSource:
        if run not in self._shown([run], guard):
            raise no_run(run)
        return self._source

    def _own(self, runs: Sequence[RunId], guard: QueryGuard | None) -> list[RunId]:
        shown = self._shown(runs, guard)
        return [one for one in runs if one in shown]

    def _shown(self, runs: Iterable[RunId], guard: QueryGuard | None) -> frozenset[RunId]:
        wanted = frozenset(runs)
        new = sorted(wanted - self._known.keys())
        if new:
            shown = self._every.shown(self._sight, new, guard)
            self._known |= {run: run in shown for run in new}
        return frozenset(run for run in wanted if self._known[run])
