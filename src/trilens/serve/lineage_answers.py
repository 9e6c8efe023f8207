"""What the questions about lineage answer, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer  # noqa: TC001
from trilens.serve.run_answers import CheckpointAnswer, Value  # noqa: TC001  msgspec reads the annotations


class BatchAnswer(msgspec.Struct, frozen=True):
    """Which samples a step saw: `range` is first, count and stride; where neither it nor `ids` nor `names`
    tells, `unknown` says why."""

    run: str
    step: int
    rank: int
    attempt: int
    n: int
    i: int
    dataset: str
    shard: str | None
    epoch: int | None
    size: int | None
    digest: str | None
    range: tuple[int, int, int] | None
    ids: list[int]
    names: list[str]
    unknown: str | None


class StepOfRank(msgspec.Struct, frozen=True):
    """One rank's step. `kept` is false for one that was thrown away: the run went back behind it."""

    rank: int
    attempt: int
    n: int
    kept: bool
    start_us: int
    duration_us: int
    phases_us: dict[str, int]
    device_phases_us: dict[str, int]
    values: dict[str, Value]
    samples: int | None
    tokens: int | None
    epoch: int | None
    node: str | None
    namespace: str | None
    pod: str | None
    gpus: list[str]
    batches: list[BatchAnswer]


class StepDetail(msgspec.Struct, frozen=True):
    """A step on all ranks, in every attempt that did it. `next` is null at the end."""

    run: str
    step: int
    ranks: list[StepOfRank]
    next: str | None


class PartAnswer(msgspec.Struct, frozen=True):
    """Steps of one stretch of a run, both ends included."""

    run: str
    stretch: int
    attempts: list[int]
    first_step: int
    last_step: int


class ShareAnswer(msgspec.Struct, frozen=True):
    """How much of a dataset; `unknown` of the batches did not tell their samples."""

    dataset: str
    shard: str | None
    batches: int
    samples: int
    unknown: int


class RepeatedAnswer(msgspec.Struct, frozen=True):
    """Samples that were seen more than once in one epoch."""

    dataset: str
    shard: str | None
    epoch: int | None
    samples: int
    examples: list[int | str]


class CheckpointContents(msgspec.Struct, frozen=True):
    """What is inside a checkpoint. `others` are those of the same step that were written before or after it;
    `repeated` is null where there are too many batches to look through."""

    run: str
    checkpoint: CheckpointAnswer
    others: list[CheckpointAnswer]
    parts: list[PartAnswer]
    thrown_away: list[PartAnswer]
    datasets: list[ShareAnswer]
    repeated: list[RepeatedAnswer] | None
    doubts: list[DoubtAnswer]


class BatchPage(msgspec.Struct, frozen=True):
    """`next` is null at the end."""

    batches: list[BatchAnswer]
    next: str | None


class SightingAnswer(msgspec.Struct, frozen=True):
    """A batch that held the sample. `kept` tells whether its step counts in how the run stands; `checkpoints`
    are the steps of those that have it in them."""

    run: str
    experiment: str | None
    name: str | None
    step: int
    rank: int
    attempt: int
    dataset: str
    shard: str | None
    epoch: int | None
    kept: bool
    checkpoints: list[int]


class SpikeAnswer(msgspec.Struct, frozen=True):
    """`median` and `spreads` are null for a value that is not finite. `batches` are those of the steps from
    `first_step` to `step`, the worst rank's first, or, unless `of_all_ranks`, its alone; `left_out` more are
    not listed."""

    attempt: int
    step: int
    last_step: int
    peak_step: int
    peak: Value
    rank: int
    median: float | None
    spreads: float | None
    first_step: int
    batches: list[BatchAnswer]
    left_out: int
    of_all_ranks: bool


class CommonAnswer(msgspec.Struct, frozen=True):
    """A batch or a sample that came before several spikes; `spikes` are their places in the list."""

    dataset: str
    shard: str | None
    digest: str | None
    sample: int | str | None
    spikes: list[int]


class SpikesAnswer(msgspec.Struct, frozen=True):
    """`found` spikes, of which the strongest are listed."""

    run: str
    value: str
    points: int
    found: int
    spikes: list[SpikeAnswer]
    common: list[CommonAnswer]
