"""A RunSource over plain lists of records, and short ways to make these."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from trilens.model.run_curve import Curve
from trilens.model.run_sums import (
    ArtifactName,
    AttemptSpan,
    CurvePoint,
    DatasetShare,
    LastSteps,
    Portion,
    Sighting,
    StepTime,
    Tail,
)
from trilens.model.sample_ids import SampleRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.run import (
        ArtifactRecord,
        BatchRecord,
        CheckpointRecord,
        NoteRecord,
        RankProcess,
        RunFacts,
        RunId,
        StepRecord,
        Tracker,
        ValidationRecord,
    )


@dataclass
class MemoryRuns:
    facts: list[RunFacts] = field(default_factory=list)
    told_processes: list[RankProcess] = field(default_factory=list)
    told_steps: list[StepRecord] = field(default_factory=list)
    told_batches: list[BatchRecord] = field(default_factory=list)
    told_checkpoints: list[CheckpointRecord] = field(default_factory=list)
    told_validations: list[ValidationRecord] = field(default_factory=list)
    told_notes: list[NoteRecord] = field(default_factory=list)
    told_artifacts: list[ArtifactRecord] = field(default_factory=list)

    def told_trackers(self, *, limit: int) -> list[tuple[RunId, tuple[Tracker, ...]]]:
        return [(one.run, one.trackers) for one in self.runs(limit=limit) if one.trackers]

    def runs(
        self,
        *,
        run: RunId | None = None,
        experiment: str | None = None,
        since_ms: int | None = None,
        limit: int = 100,
        guard: Any = None,
    ) -> list[RunFacts]:
        heard: defaultdict[str, int] = defaultdict(int)
        for process in self.told_processes:
            heard[process.run] = max(heard[process.run], process.heard_ms)
        found = [
            one
            for one in self.facts
            if run in (None, one.run)
            and experiment in (None, one.experiment)
            and (since_ms is None or max(one.created_ms, heard[one.run]) >= since_ms)
        ]
        return sorted(found, key=lambda one: -one.created_ms)[:limit]

    def processes(self, runs: Sequence[RunId], *, guard: Any = None) -> list[RankProcess]:
        return [one for one in self.told_processes if one.run in runs]

    def spans(self, run: RunId, *, guard: Any = None) -> list[AttemptSpan]:
        steps = sorted(self._of(self.told_steps, run), key=lambda one: (one.rank, one.attempt, one.n))
        lives = groupby(steps, key=lambda one: (one.rank, one.attempt))
        return [_span(way) for _, life in lives for way in ways_forward([*life])]

    def first_steps(self, runs: Sequence[RunId], *, guard: Any = None) -> dict[RunId, int]:
        firsts = {run: [one.step for one in self.told_steps if one.run == run] for run in runs}
        return {run: min(steps) for run, steps in firsts.items() if steps}

    def steps(
        self,
        run: RunId,
        first: int,
        last: int,
        *,
        rank: int | None = None,
        limit: int = 10_000,
        guard: Any = None,
    ) -> list[StepRecord]:
        found = [
            one
            for one in self._of(self.told_steps, run)
            if first <= one.step <= last and rank in (None, one.rank)
        ]
        return sorted(found, key=lambda one: (one.step, one.rank, one.attempt, one.n))[:limit]

    def tails(self, wanted: Sequence[Tail], *, guard: Any = None) -> list[StepRecord]:
        asked = {(one.run, one.rank, one.attempt): one.first_step for one in wanted}
        found = [
            one
            for one in self.told_steps
            if one.step >= asked.get((one.run, one.rank, one.attempt), math.inf)
        ]
        return sorted(found, key=lambda one: (one.run, one.step, one.rank))

    def latest(self, wanted: Sequence[Tail], *, guard: Any = None) -> dict[RunId, LastSteps]:
        of_run: defaultdict[RunId, list[StepRecord]] = defaultdict(list)
        for step in sorted(self.tails(wanted), key=lambda one: one.n):
            of_run[step.run].append(step)
        return {
            run: LastSteps(
                [StepTime(run, x.step, x.n, x.start_us, x.duration_us, x.samples, x.tokens) for x in steps],
                steps[-1].values,
            )
            for run, steps in of_run.items()
        }

    def batches(
        self,
        run: RunId,
        first: int,
        last: int,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        limit: int = 10_000,
        guard: Any = None,
    ) -> list[BatchRecord]:
        found = [
            one
            for one in self._of(self.told_batches, run)
            if first <= one.step <= last and rank in (None, one.rank) and attempt in (None, one.attempt)
        ]
        return sorted(found, key=lambda one: (one.step, one.rank, one.attempt, one.n, one.i))[:limit]

    def shares(self, run: RunId, portions: Sequence[Portion], *, guard: Any = None) -> list[DatasetShare]:
        found: defaultdict[tuple[str, str | None], list[int]] = defaultdict(lambda: [0, 0, 0])
        for batch in self._of(self.told_batches, run):
            if not any(in_portion(batch, portion) for portion in portions):
                continue
            sums = found[batch.dataset, batch.shard]
            sums[0] += 1
            sums[1] += batch.size or 0
            sums[2] += batch.unknown is not None
        return [
            DatasetShare(*key, *sums)
            for key, sums in sorted(found.items(), key=lambda pair: (pair[0][0], pair[0][1] or ""))
        ]

    def sightings(
        self,
        sample: int | str,
        *,
        run: RunId | None = None,
        dataset: str | None = None,
        limit: int = 1_000,
        guard: Any = None,
    ) -> list[Sighting]:
        found = [
            Sighting(one.run, one.step, one.rank, one.attempt, one.n, one.dataset, one.shard, one.epoch)
            for one in self.told_batches
            if run in (None, one.run) and dataset in (None, one.dataset) and _has(one, sample)
        ]
        return sorted(found)[:limit]

    def curve(self, run: RunId, value: str, first: int, last: int, *, guard: Any = None) -> Curve:
        told: defaultdict[tuple[int, int], list[StepRecord]] = defaultdict(list)
        for one in self._of(self.told_steps, run):
            if first <= one.step <= last and value in one.values:
                told[one.step, one.attempt].append(one)
        found = []
        for (step, attempt), ranks in sorted(told.items()):
            worst = min(ranks, key=lambda one: _badness(one.values[value]))
            found.append(
                CurvePoint(
                    step,
                    attempt,
                    min(one.start_us for one in ranks),
                    sum(one.values[value] for one in ranks) / len(ranks),
                    worst.values[value],
                    worst.rank,
                )
            )
        return Curve.of(found)

    def checkpoints(self, run: RunId, *, guard: Any = None) -> list[CheckpointRecord]:
        return sorted(self._of(self.told_checkpoints, run), key=lambda one: (one.start_ms, one.n, one.rank))

    def written_at(self, path: str, *, guard: Any = None) -> list[CheckpointRecord]:
        found = [one for one in self.told_checkpoints if one.path == path and not one.loaded]
        return sorted(found, key=lambda one: one.start_ms)

    def validations(self, run: RunId, *, guard: Any = None) -> list[ValidationRecord]:
        return sorted(self._of(self.told_validations, run), key=lambda one: (one.step, one.rank, one.attempt))

    def notes(self, run: RunId, *, limit: int = 1_000, guard: Any = None) -> list[NoteRecord]:
        return sorted(self._of(self.told_notes, run), key=lambda one: one.t_ms)[-limit:]

    def artifacts(self, run: RunId, *, rank: int | None = None, guard: Any = None) -> list[ArtifactName]:
        return [
            ArtifactName(one.rank, one.attempt, one.n, one.t_ms, one.kind, one.name, len(one.content))
            for one in sorted(self._of(self.told_artifacts, run), key=lambda one: one.t_ms)
            if rank in (None, one.rank)
        ]

    def artifact(
        self, run: RunId, rank: int, attempt: int, n: int, *, guard: Any = None
    ) -> ArtifactRecord | None:
        wanted = (rank, attempt, n)
        return next(
            (one for one in self._of(self.told_artifacts, run) if (one.rank, one.attempt, one.n) == wanted),
            None,
        )

    @staticmethod
    def _of(records: Iterable[Any], run: RunId) -> list[Any]:
        return [one for one in records if one.run == run]


def _span(way: Sequence[StepRecord]) -> AttemptSpan:
    first, last = way[0], way[-1]
    return AttemptSpan(
        first.rank,
        first.attempt,
        first.step,
        last.step,
        len(way),
        _sum(one.samples for one in way),
        _sum(one.tokens for one in way),
        first.start_us,
        last.start_us + last.duration_us,
        first.n,
        last.n,
    )


def ways_forward(life: Sequence[StepRecord]) -> list[list[StepRecord]]:
    """One life of a rank, cut where it went back."""
    found: list[list[StepRecord]] = []
    for one in life:
        if found and one.step > found[-1][-1].step:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def in_portion(one: Any, portion: Portion) -> bool:
    return (
        one.attempt == portion.attempt
        and portion.first_step <= one.step <= portion.last_step
        and portion.rank in (None, one.rank)
        and (portion.first_n is None or portion.first_n <= one.n)
        and (portion.last_n is None or one.n <= portion.last_n)
    )


def _has(batch: BatchRecord, sample: int | str) -> bool:
    if batch.first is not None and isinstance(sample, int):
        return sample in SampleRange(batch.first, batch.size or 0, batch.stride)
    return sample in batch.ids or sample in batch.names


def _badness(value: float) -> tuple[bool, float]:
    return (math.isfinite(value), -value if math.isfinite(value) else 0.0)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
