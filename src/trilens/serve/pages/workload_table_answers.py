"""What /api/workload-table answers, as a type: one list for each column, all of one length."""

from __future__ import annotations

import msgspec


class WorkloadTable(msgspec.Struct, frozen=True):
    """Workloads that use GPUs, want some, or tell of a run; a run whose workload nobody knows has the kind
    Run and no cluster. Null is unknown.

    `since_ms` is since when it is in its phase; `gone_ms` is when it went. `health` is critical, warning,
    info or ok, and null of what is gone; `incident` is the id of the incident that says so. `goodput` is the
    useful share of its GPU time of the last 24 hours, 0 to 1, of what some signal told of. `cost` is what it
    has cost in the last 30 days, in `currency`. `seconds_left` holds if it goes on as its last steps did.
    """

    at_ms: int | None
    currency: str
    cluster: list[str]
    namespace: list[str]
    kind: list[str]
    name: list[str]
    team: list[str | None]
    phase: list[str | None]
    since_ms: list[int | None]
    gone_ms: list[int | None]
    gpus: list[int]
    health: list[str | None]
    health_text: list[str | None]
    incident: list[str | None]
    goodput: list[float | None]
    cost: list[float | None]
    cost_per_hour: list[float | None]
    run: list[str | None]
    run_name: list[str | None]
    step: list[int | None]
    total_steps: list[int | None]
    seconds_left: list[float | None]
