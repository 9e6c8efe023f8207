"""What a workload's timeline answers, as types: the OpenAPI schema is made from them.

All lists of numbers have one entry for each slot of the grid: `from_ms + i * step_ms` is when slot i begins.
Null is unknown, never zero.
"""

from __future__ import annotations

import msgspec

from trilens.serve.event_answers import WorkloadName  # noqa: TC001  msgspec reads the annotations


class ValueLine(msgspec.Struct, frozen=True):
    """A value that the program told: its mean over ranks and steps. `role` is loss, validation,
    gradient_norm, learning_rate or other; `not_finite` are the slots in which it was NaN or infinite."""

    name: str
    role: str
    mean: list[float | None]
    not_finite: list[int]


class ProgramLayer(msgspec.Struct, frozen=True):
    """What the training program told. `step` is the last that began in the slot; rates are of all ranks
    together, samples and tokens by some of the steps."""

    runs: list[str]
    run: str | None
    ranks: int | None
    step: list[int | None]
    values: list[ValueLine]
    steps_per_second: list[float | None]
    samples_per_second: list[float | None]
    tokens_per_second: list[float | None]


class PhaseSpan(msgspec.Struct, frozen=True):
    phase: str
    reason: str
    attempt: int
    from_ms: int
    to_ms: int | None


class MarkAnswer(msgspec.Struct, frozen=True):
    """Something that happened at one moment: `kind` is an event's. Equal ones of a slot are one, with their
    count."""

    t_ms: int
    kind: str
    code: int | None
    text: str
    node: str | None
    gpu: int | None
    rank: int | None
    count: int


class PlatformLayer(msgspec.Struct, frozen=True):
    """Pods at the end of each slot: on a node, and still without one. `more_marks` are not listed."""

    placed: list[int | None]
    waiting: list[int | None]
    phases: list[PhaseSpan]
    marks: list[MarkAnswer]
    more_marks: int


class FigureLine(msgspec.Struct, frozen=True):
    """One figure over the GPUs of the workload. `unit` is ratio, watts, celsius or hertz."""

    figure: str
    unit: str
    mean: list[float | None]
    least: list[float | None]
    most: list[float | None]


class GpuLayer(msgspec.Struct, frozen=True):
    """`gpus` is how many told of themselves, of any figure."""

    gpus: list[int]
    figures: list[FigureLine]


class TroubleSpan(msgspec.Struct, frozen=True):
    """`what` is incident or finding; `name` the code of the detector, or of the root symptom."""

    what: str
    id: str
    name: str
    severity: str
    title: str
    from_ms: int
    to_ms: int | None
    rank: int | None
    node: str | None
    gpu: str | None
    lost: str | None
    currency: str | None


class MoneyLayer(msgspec.Struct, frozen=True):
    """Amounts by bucket in each slot, and all of it from the workload's beginning on. The ledger has whole
    hours: `spread` is hour, for each of them lies evenly over the time that the workload was there in it.
    Without a price or with several currencies, `currency` is null and there are no amounts."""

    currency: str | None
    spread: str
    buckets: dict[str, list[float | None]]
    total: list[float | None]
    per_hour: float | None
    spent: float | None
    upto_ms: int | None


class RankLayer(msgspec.Struct, frozen=True):
    """One rank, and where its latest life is. `own_ms` is a step without the waiting for others; figures are
    those of the GPU that it had then."""

    rank: int
    pod: str | None
    node: str | None
    gpu: str | None
    step_ms: list[float | None]
    own_ms: list[float | None]
    figures: dict[str, list[float | None]]


class TimelineAnswer(msgspec.Struct, frozen=True):
    """A workload over time, all of its layers on one grid."""

    workload: WorkloadName
    from_ms: int
    step_ms: int
    points: int
    program: ProgramLayer
    platform: PlatformLayer
    gpus: GpuLayer
    troubles: list[TroubleSpan]
    money: MoneyLayer
    rank: RankLayer | None
