"""What /api/workloads answers, as types: the OpenAPI schema is made from them. Times are in milliseconds."""

from __future__ import annotations

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer  # noqa: TC001  msgspec reads the annotations
from trilens.serve.money.spending_answer import SpendingAnswer  # noqa: TC001


class PhaseAnswer(msgspec.Struct, frozen=True):
    """`to_ms` is null while it lasts."""

    phase: str
    reason: str
    attempt: int
    from_ms: int
    to_ms: int | None
    seconds: float


class GoneAnswer(msgspec.Struct, frozen=True):
    """Since when nothing of a workload is there, and the phase that it was last in."""

    at_ms: int
    phase: str | None
    reason: str


class MemberCount(msgspec.Struct, frozen=True):
    """Pods that are there. `ready` is known for the present only, else null."""

    total: int
    on_nodes: int
    ready: int | None


class WorkloadAnswer(msgspec.Struct, frozen=True):
    """A workload at a moment. Null is unknown. `gone` is null while something of it is there. `doubts` are
    also those about its members."""

    cluster: str
    namespace: str
    group: str
    kind: str
    name: str
    uid: str
    created_ms: int | None
    team: str | None
    cost_centre: str | None
    experiment: str | None
    queue: str | None
    attempt: int
    phase: PhaseAnswer | None
    gone: GoneAnswer | None
    members: MemberCount
    doubts: list[DoubtAnswer]


class MemberAnswer(msgspec.Struct, frozen=True):
    """A pod in its place; one that has left has a `to_ms`."""

    pod: str
    uid: str
    role: str
    group: int | None
    node_rank: int | None
    node: str | None
    attempt: int
    from_ms: int
    to_ms: int | None
    ready: bool | None
    doubts: list[DoubtAnswer]


class MemberGpuAnswer(msgspec.Struct, frozen=True):
    """A GPU that a member has, or had until `to_ms`; `share` is a fraction of the whole device. Readings are
    known for the present only, and use and power are the whole device's."""

    pod: str
    container: str
    attempt: int
    rank: int | None
    local_rank: int | None
    node: str | None
    index: str | None
    model: str | None
    uuid: str
    instance: str | None
    share: str | None
    utilization: float | None
    memory_used_bytes: float | None
    power_watts: float | None
    sources: list[str]
    from_ms: int
    to_ms: int | None
    doubts: list[DoubtAnswer]


class AttemptAnswer(msgspec.Struct, frozen=True):
    """One life of a workload, and how it ended or stands."""

    attempt: int
    from_ms: int
    to_ms: int | None
    phase: str | None
    reason: str


class StepAnswer(msgspec.Struct, frozen=True):
    """As it was at that moment; `seconds` is null before it began."""

    name: str
    state: str
    started_ms: int | None
    finished_ms: int | None
    pod: str | None
    seconds: float | None


class WorkloadDetail(msgspec.Struct, frozen=True):
    """All that happened to a workload until a moment, oldest first. What it cost is known for the present
    only. Where fewer members and GPUs were asked for, those that are there come before those that have left:
    `members_known` are all of them, and `gpus_held` the GPUs that it holds."""

    workload: WorkloadAnswer
    members: list[MemberAnswer]
    members_known: int
    phases: list[PhaseAnswer]
    seconds_in_phase: dict[str, float]
    attempts: list[AttemptAnswer]
    steps: list[StepAnswer]
    gpus: list[MemberGpuAnswer]
    gpus_held: int
    spent: SpendingAnswer | None
