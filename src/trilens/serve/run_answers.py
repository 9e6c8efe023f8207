"""What /api/runs answers, as types: the OpenAPI schema is made from them.

Times are in milliseconds unless their name says otherwise. Null is unknown. JSON has no number for what is
not finite: such a value is the text NaN, Infinity or -Infinity.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer  # noqa: TC001
from trilens.serve.event_answers import WorkloadName  # noqa: TC001  msgspec reads the annotations
from trilens.serve.money.spending_answer import SpendingAnswer  # noqa: TC001

Value = float | str


class TrackerRun(msgspec.Struct, frozen=True):
    """The same run in an experiment tracker."""

    system: str
    run: str
    where: str


class TimeLeft(msgspec.Struct, frozen=True):
    """If it goes on as its last steps did: `low` and `high` then hold four of five."""

    seconds: float
    low: float
    high: float


class RunAnswer(msgspec.Struct, frozen=True):
    """A run as it stands. `step` is the number of the one it is at, `steps_done` how many are done, whether
    the program counts from 0 or from 1; `progress` is their share of all. `since_ms` is when it ended, or
    when its last step did where it is stalled. Rates are those of its lowest rank, times its ranks."""

    run: str
    experiment: str | None
    name: str | None
    source: str
    state: str | None
    since_ms: int | None
    error: str | None
    error_rank: int | None
    dead_ranks: list[int]
    attempts: int
    ranks: int
    world_size: int | None
    step: int | None
    steps_done: int | None
    total_steps: int | None
    progress: float | None
    time_left: TimeLeft | None
    step_seconds: float | None
    samples_per_second: float | None
    tokens_per_second: float | None
    loss: Value | None
    phase: str | None
    created_ms: int
    started_ms: int | None
    heard_ms: int | None
    workloads: list[WorkloadName]
    trackers: list[TrackerRun]


class BeganAnswer(msgspec.Struct, frozen=True):
    """`how` is scratch, loaded or inferred; `run` is the run whose checkpoint it was, null where nobody told
    of writing it."""

    how: str
    step: int | None
    path: str | None
    run: str | None


class StepRange(msgspec.Struct, frozen=True):
    first_step: int
    last_step: int


class StretchAnswer(msgspec.Struct, frozen=True):
    """What ranks did together, from a start or a load to the next: usually one attempt of each."""

    stretch: int
    attempts: list[int]
    ranks: list[int]
    first_step: int
    last_step: int
    from_ms: int
    to_ms: int
    began: BeganAnswer
    ended: str | None
    error: str | None
    thrown_away: list[StepRange]
    doubts: list[DoubtAnswer]


class RankAnswer(msgspec.Struct, frozen=True):
    """One life of one rank; `is_last` unless the rank came back, or the job did without it. `lost` is what
    the SDK in it had to drop, by kind."""

    rank: int
    attempt: int
    is_last: bool
    local_rank: int | None
    world_size: int | None
    node: str
    pid: int | None
    cluster: str | None
    namespace: str | None
    pod: str | None
    container: str | None
    gpus: list[str]
    launcher: str | None
    job: str | None
    metrics_address: str | None
    versions: dict[str, str]
    started_ms: int
    heard_ms: int
    step: int | None
    phase: str | None
    clock_offset_us: int | None
    lost: dict[str, int]
    ended_ms: int | None
    ending: str | None
    error: str | None


class CheckpointAnswer(msgspec.Struct, frozen=True):
    """Over the ranks that wrote it."""

    step: int
    stretch: int
    attempts: list[int]
    ranks: list[int]
    paths: list[str]
    start_ms: int
    seconds: float | None
    size_bytes: int | None
    ok: bool
    error: str | None


class ValidationAnswer(msgspec.Struct, frozen=True):
    step: int
    rank: int
    attempt: int
    t_ms: int
    seconds: float | None
    values: dict[str, Value]


class NoteAnswer(msgspec.Struct, frozen=True):
    t_ms: int
    rank: int
    attempt: int
    step: int | None
    kind: str
    text: str
    data: dict[str, Any]


class ArtifactAnswer(msgspec.Struct, frozen=True):
    """`artifact` is what to ask for it by."""

    artifact: str
    rank: int
    attempt: int
    t_ms: int
    kind: str
    name: str
    size_bytes: int


class RunDetail(msgspec.Struct, frozen=True):
    """All that is known of a run but its steps. `lost` adds up what the SDK had to drop, by kind."""

    run: RunAnswer
    config: dict[str, Any]
    tags: dict[str, str]
    stretches: list[StretchAnswer]
    ranks: list[RankAnswer]
    checkpoints: list[CheckpointAnswer]
    validations: list[ValidationAnswer]
    notes: list[NoteAnswer]
    artifacts: list[ArtifactAnswer]
    lost: dict[str, int]
    spent: SpendingAnswer | None


class RunPage(msgspec.Struct, frozen=True):
    """`next` is null at the end."""

    runs: list[RunAnswer]
    next: str | None
