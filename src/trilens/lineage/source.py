"""What lineage reads through; the store satisfies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class AttemptSpan(NamedTuple):
    """What one life of a rank did. Steps that it did twice count twice in `records`."""

    rank: int
    attempt: int
    first_step: int
    last_step: int
    records: int
    samples: int | None  # None when no step told how many
    tokens: int | None
    start_us: int
    end_us: int


class DatasetShare(NamedTuple):
    """How much of a dataset a span of steps saw. `unknown` batches did not tell their samples."""

    dataset: str
    shard: str | None
    batches: int
    samples: int
    unknown: int


class Sighting(NamedTuple):
    """A batch that held a sample."""

    run: RunId
    step: int
    rank: int
    attempt: int
    n: int
    dataset: str
    shard: str | None
    epoch: int | None


class CurvePoint(NamedTuple):
    """A value at a step, over the ranks that told it. A value that is not finite makes `worst` so."""

    step: int
    attempt: int
    t_us: int
    mean: float
    worst: float  # the largest, or the first that is not finite
    worst_rank: int


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
    ) -> list[BatchRecord]: ...

    def shares(
        self,
        run: RunId,
        spans: Sequence[tuple[int, int, int]],
        *,
        guard: QueryGuard | None = None,
    ) -> list[DatasetShare]:
        """What the steps of these (attempt, first, last) saw, over all ranks."""

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
    ) -> list[CurvePoint]: ...

    def checkpoints(self, run: RunId, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]: ...

    def validations(self, run: RunId, *, guard: QueryGuard | None = None) -> list[ValidationRecord]: ...

    def notes(
        self, run: RunId, *, limit: int = 1_000, guard: QueryGuard | None = None
    ) -> list[NoteRecord]: ...

    def artifacts(
        self, run: RunId, *, rank: int | None = None, guard: QueryGuard | None = None
    ) -> list[ArtifactRecord]: ...
