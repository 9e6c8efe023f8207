"""What lineage reads through; the store satisfies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trilens.model.run_sums import (
    ArtifactName,
    AttemptSpan,
    DatasetShare,
    LastSteps,
    Portion,
    Sighting,
    Tail,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

__all__ = [
    "ArtifactName",
    "AttemptSpan",
    "DatasetShare",
    "LastSteps",
    "Portion",
    "RunSource",
    "Sighting",
    "Tail",
]


class RunSource(Protocol):
    """Every answer holds each record once, however often it was sent. Newest runs first."""

    def runs(
        self,
        *,
        run: RunId | None = None,
        experiment: str | None = None,
        since_ms: int | None = None,
        limit: int = 100,
        guard: QueryGuard | None = None,
    ) -> list[RunFacts]: ...

    def processes(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> list[RankProcess]: ...

    def spans(self, run: RunId, *, guard: QueryGuard | None = None) -> list[AttemptSpan]: ...

    def first_steps(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> Mapping[RunId, int]:
        """The lowest number that a step had in any life of each; without those that told of none."""

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
        """Both ends included, by step, rank, attempt."""

    def tails(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> list[StepRecord]:
        """The steps of many runs at once, for what they are at now; by run, step, rank."""

    def latest(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> Mapping[RunId, LastSteps]:
        """The same for many more steps of one life of each run, but only when they were; without runs that
        have none."""

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
        """Both ends included, by step, rank, attempt, n, i."""

    def shares(
        self,
        run: RunId,
        portions: Sequence[Portion],
        *,
        guard: QueryGuard | None = None,
    ) -> list[DatasetShare]:
        """What the steps of these portions, which do not overlap, saw."""

    def sightings(
        self,
        sample: int | str,
        *,
        run: RunId | None = None,
        dataset: str | None = None,
        limit: int = 1_000,
        guard: QueryGuard | None = None,
    ) -> list[Sighting]: ...

    def curve(
        self,
        run: RunId,
        value: str,
        first: int,
        last: int,
        *,
        guard: QueryGuard | None = None,
    ) -> Curve: ...

    def checkpoints(self, run: RunId, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        """Written and loaded ones, by start."""

    def written_at(self, path: str, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        """The checkpoints of all runs that were written, not loaded, at exactly this path, by start."""

    def validations(self, run: RunId, *, guard: QueryGuard | None = None) -> list[ValidationRecord]: ...

    def notes(
        self, run: RunId, *, limit: int = 1_000, guard: QueryGuard | None = None
    ) -> list[NoteRecord]: ...

    def artifacts(
        self, run: RunId, *, rank: int | None = None, guard: QueryGuard | None = None
    ) -> list[ArtifactName]:
        """By time."""

    def artifact(
        self, run: RunId, rank: int, attempt: int, n: int, *, guard: QueryGuard | None = None
    ) -> ArtifactRecord | None: ...
