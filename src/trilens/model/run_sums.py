"""What many records of a run come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.model.run import RunId


class AttemptSpan(NamedTuple):
    """One way forward of one life of a rank: steps in rising order. A life that went back to an earlier step
    has several. Fewer `records` than from `first_n` to `last_n`: some were lost."""

    rank: int
    attempt: int
    first_step: int
    last_step: int
    records: int
    samples: int | None  # None when no step told how many
    tokens: int | None
    start_us: int
    end_us: int
    first_n: int  # the how-manieth steps of their process the two ends are
    last_n: int


class Portion(NamedTuple):
    """Steps of an attempt, both ends included: of all ranks, or of one, and there of one way forward."""

    attempt: int
    first_step: int
    last_step: int
    rank: int | None = None
    first_n: int | None = None
    last_n: int | None = None


class Tail(NamedTuple):
    """The steps of one life of a rank from `first_step` on."""

    run: RunId
    rank: int
    attempt: int
    first_step: int


class StepTime(NamedTuple):
    """When a step was, and how much it took in."""

    run: RunId
    step: int
    n: int
    start_us: int
    duration_us: int
    samples: int | None
    tokens: int | None


class LastSteps(NamedTuple):
    """Steps of one life, by n, and the values of the last of them."""

    times: Sequence[StepTime]
    values: Mapping[str, float]


class ArtifactName(NamedTuple):
    """An artifact without its content."""

    rank: int
    attempt: int
    n: int
    t_ms: int
    kind: str
    name: str
    size_bytes: int


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
