"""Workloads as columns: those of the last look, and those that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.serve.pages.fleet_health import WorkloadHealth
from trilens.serve.pages.workload_table_answers import WorkloadTable
from trilens.serve.workload_view import gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from decimal import Decimal

    from trilens.model.finding import FindingInterval
    from trilens.model.incident import Incident
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.serve.pages.fleet_health import Ill
    from trilens.serve.pages.fleet_scene import FleetScene, JobNow
    from trilens.serve.pages.workload_table_money import Spent
    from trilens.store.workloads import WorkloadHistory

_ALONE = "Run"  # the kind of what is in no workload


class GoneWorkload(NamedTuple):
    key: WorkloadKey
    team: str | None
    phase: str | None  # that it was last in
    since_ms: int | None
    gone_ms: int


class Known(NamedTuple):
    """All that the table is made of. `scene` is None before the first look."""

    scene: FleetScene | None
    gone: Sequence[GoneWorkload]
    findings: Sequence[FindingInterval]
    incidents: Sequence[Incident]
    spent: Mapping[WorkloadKey, Spent]
    held: Mapping[PodKey, int]  # GPUs, or parts of them
    per_hour: Callable[[WorkloadKey], Decimal | None]
    currency: str


def gone_workloads(histories: Iterable[WorkloadHistory]) -> list[GoneWorkload]:
    found = []
    for history in histories:
        left = gone(history)
        if left is not None:
            last = history.phases[-1] if history.phases else None
            since_ms = last.from_ms if last is not None else None
            found.append(
                GoneWorkload(history.record.key, history.record.team, left.phase, since_ms, left.at_ms)
            )
    return found


def workload_table(known: Known) -> WorkloadTable:
    jobs = list(known.scene.jobs) if known.scene is not None else []
    there = {job.workload for job in jobs}
    left = [one for one in known.gone if one.key not in there]
    health = WorkloadHealth(known.findings, known.incidents)
    ills: list[Ill | None] = [health.of(job.workload, job.run) for job in jobs]
    spent = [known.spent.get(job.workload) if job.workload is not None else None for job in jobs]
    spent += [known.spent.get(one.key) for one in left]
    nothing: list[None] = [None] * len(left)
    return WorkloadTable(
        known.scene.now_ms if known.scene is not None else None,
        known.currency,
        [*(job.workload.cluster if job.workload else "" for job in jobs), *(one.key.cluster for one in left)],
        [
            *(job.workload.namespace if job.workload else "" for job in jobs),
            *(one.key.namespace for one in left),
        ],
        [*(job.workload.kind if job.workload else _ALONE for job in jobs), *(one.key.kind for one in left)],
        [*(job.name for job in jobs), *(one.key.name for one in left)],
        [*(job.team for job in jobs), *(one.team for one in left)],
        [*(job.phase.value if job.phase is not None else None for job in jobs), *(one.phase for one in left)],
        [*(job.since_ms for job in jobs), *(one.since_ms for one in left)],
        [*(None for _ in jobs), *(one.gone_ms for one in left)],
        [*(_gpus(known, job) for job in jobs), *(0 for _ in left)],
        [*(ill.severity.value if ill is not None else "ok" for ill in ills), *nothing],
        [*(ill.text if ill is not None else None for ill in ills), *nothing],
        [*(ill.incident if ill is not None else None for ill in ills), *nothing],
        [_rounded(one.goodput) if one is not None else None for one in spent],
        [one.amount if one is not None else None for one in spent],
        [*(_per_hour(known, job) for job in jobs), *nothing],
        [*(job.run for job in jobs), *nothing],
        [*(job.run_name for job in jobs), *nothing],
        [*(job.step for job in jobs), *nothing],
        [*(job.total_steps for job in jobs), *nothing],
        [*(round(job.seconds_left) if job.seconds_left is not None else None for job in jobs), *nothing],
    )


def _gpus(known: Known, job: JobNow) -> int:
    """Also those that do not report."""
    return max(job.reporting, sum(known.held.get(pod, 0) for pod in job.pods))


def _per_hour(known: Known, job: JobNow) -> float | None:
    cost = known.per_hour(job.workload) if job.workload is not None and job.reporting else None
    return round(float(cost), 2) if cost is not None else None


def _rounded(share: float | None) -> float | None:
    return round(share, 4) if share is not None else None
