"""What /api/gpus/{uuid}/life answers, as types. Times are in milliseconds; null is unknown."""

from __future__ import annotations

import msgspec

from trilens.serve.event_answers import WorkloadName  # noqa: TC001  msgspec reads the annotations
from trilens.serve.money.spending_answer import BucketAnswer  # noqa: TC001


class HeldSpan(msgspec.Struct, frozen=True):
    """Who held it, or a part of it; `to_ms` is null while that lasts."""

    from_ms: int
    to_ms: int | None
    workload: WorkloadName | None
    namespace: str
    pod: str
    rank: int | None
    share: str | None
    instance: str | None


class ReportingSpan(msgspec.Struct, frozen=True):
    """When it reported; between two of them it was silent: reset, lost, or nobody asked it."""

    from_ms: int
    to_ms: int | None
    node: str


class LifeEvent(msgspec.Struct, frozen=True):
    """A fault that its machine's kernel reported; `asks` is what it asks for at once."""

    t_ms: int
    kind: str
    code: int | None
    title: str | None
    asks: str | None
    text: str


class LifeFinding(msgspec.Struct, frozen=True):
    id: str
    code: str
    severity: str
    text: str
    action: str
    onset_ms: int
    ended_ms: int | None


class LifeCurves(msgspec.Struct, frozen=True):
    """At most 600 moments, and at each what it said since the one before: temperature and memory at their
    highest, use and power on the average. Shares are from 0 to 1."""

    times_ms: list[int]
    utilization: list[float | None]
    temperature_celsius: list[float | None]
    power_watts: list[float | None]
    memory_used: list[float | None]


class GpuLife(msgspec.Struct, frozen=True):
    """`state` is how it is now: reporting, silent or lost. Buckets are where its hours of that time went, by
    the ledger, in `currency`."""

    uuid: str
    cluster: str
    node: str
    number: str | None
    model: str | None
    state: str
    from_ms: int
    to_ms: int
    first_seen_ms: int | None
    held: list[HeldSpan]
    reporting: list[ReportingSpan]
    events: list[LifeEvent]
    findings: list[LifeFinding]
    curves: LifeCurves
    buckets: list[BucketAnswer]
    currency: str | None
