"""What /api/now answers, as types: the OpenAPI schema is made from them.

Money is a decimal text of the answer's one `currency`; null is "no price is known", never zero. Times are in
milliseconds.
"""

from __future__ import annotations

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer  # noqa: TC001  msgspec reads the annotations
from trilens.serve.event_answers import WorkloadName  # noqa: TC001
from trilens.serve.money.cost_answers import CauseAnswer, HoursAnswer, WarningAnswer  # noqa: TC001


class BurnNow(msgspec.Struct, frozen=True):
    """As booked over [from_ms, upto_ms). `change` is against what `compared_ms` of the answer had."""

    from_ms: int
    upto_ms: int
    per_hour: str | None
    before_per_hour: str | None
    change: str | None


class GpuState(msgspec.Struct, frozen=True):
    """Every GPU is in exactly one: busy, wasted (held, and stalled, idle or waiting), idle (nobody holds it),
    broken, unknown (held, and nobody tells what for). `gpus` are whole ones that add up."""

    state: str
    gpus: int
    per_hour: str | None


class IncidentNow(msgspec.Struct, frozen=True):
    """`per_hour` is what the GPUs of those that suffer cost: of one that is only slow, a part is lost."""

    id: str
    title: str
    severity: str
    workload: WorkloadName | None
    workloads: list[str]
    team: str | None
    node: str | None
    onset_ms: int
    lost: str | None
    per_hour: str | None
    acknowledged_by: str | None


class SpenderNow(msgspec.Struct, frozen=True):
    """A team, a workload with its team, or the `fleet` that nobody held. `per_hour` is null where it holds no
    GPU now."""

    team: str | None
    workload: WorkloadName | None
    is_fleet: bool
    per_hour: str | None
    gpus: float | None
    spent: str | None
    lost: str | None
    unpriced_gpu_ms: int


class RangeMoney(msgspec.Struct, frozen=True):
    """Of the whole hours of [from_ms, to_ms): all that was spent, and what of it for nothing, by cause."""

    from_ms: int
    to_ms: int
    spent: str | None
    lost: str | None
    lost_share: float | None
    buckets: dict[str, str | None]
    causes: list[CauseAnswer]
    rest: str | None
    rest_causes: int | None
    unpriced_gpu_ms: int
    hours: HoursAnswer
    warnings: list[WarningAnswer]


class NewIncidents(msgspec.Struct, frozen=True):
    """Those first seen since then; `over` of them are resolved. `lost` is of those with a price."""

    count: int
    over: int
    lost: str | None


class ChangedRate(msgspec.Struct, frozen=True):
    """`workload` is null where it is all of a team's. A rate is null where it held no GPU then."""

    team: str | None
    workload: WorkloadName | None
    is_fleet: bool
    before_per_hour: str | None
    per_hour: str | None
    change: str
    gpus_before: float
    gpus: float


class LostGpus(msgspec.Struct, frozen=True):
    """Of a node that should have them."""

    cluster: str
    node: str
    gpus: int


class Changes(msgspec.Struct, frozen=True):
    """Since `compared_ms` of the answer: what is null needs hours that are not booked. Lists hold the
    largest; counts are of all."""

    incidents: NewIncidents
    teams: list[ChangedRate] | None
    began: list[ChangedRate] | None
    began_count: int | None
    ended: list[ChangedRate] | None
    ended_count: int | None
    gpus_before: int | None
    gpus: int | None
    lost_gpus: list[LostGpus]


class NowPageAnswer(msgspec.Struct, frozen=True):
    """`compared_ms` is the same time yesterday, or the first hour that is known where that is later.
    `incidents` are the gravest, and `incidents_lost` is of all that are open, as far as it is known."""

    now_ms: int
    currency: str | None
    compared_ms: int | None
    is_yesterday: bool
    burn: BurnNow | None
    gpus: list[GpuState]
    incidents: list[IncidentNow]
    more_incidents: int
    incidents_lost: str | None
    money: RangeMoney
    teams: list[SpenderNow]
    workloads: list[SpenderNow]
    changes: Changes
    doubts: list[DoubtAnswer]
