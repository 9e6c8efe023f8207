"""Volcano Job (batch.volcano.sh).

Owners: Pod -> **Job of another group**; compared by kind alone it would pass for batch's.
Labels and annotations: `volcano.sh/job-name`, `queue-name`, `task-spec`, `task-index` (of old only in the
pod's name, `<job>-<task>-<index>`), `job-version`, `job-retry-count`.
Rank: the tasks in the order in which the Job declares them, then the task index.
Attempt: `job-retry-count`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import items, mark, numbered, section, text, time_ms, whole

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

VOLCANO_JOB = GroupKind("batch.volcano.sh", "Job")
_PHASES = {
    "Completed": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Terminated": Phase.FAILED,
    "Aborted": Phase.SUSPENDED,  # an aborted Job can be resumed
    "Aborting": Phase.SUSPENDED,
    "Pending": Phase.QUEUED,  # with pods, these tell more
    "Restarting": Phase.RESTARTING,
}


class VolcanoJob(Operator):
    kinds = (VOLCANO_JOB,)
    versions = frozenset({"v1alpha1"})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        task = mark(pod, "volcano.sh/task-spec") or ""
        index = numbered(pod, "volcano.sh/task-index")
        if index is None:
            index = whole(pod.name.rpartition("-")[2])
        ahead = _pods_ahead(owner.found, task) if owner.found is not None else None
        return replace(
            below,
            role=task,
            rank=None if index is None or ahead is None else ahead + index,
            attempt=numbered(pod, "volcano.sh/job-retry-count"),
        )

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "volcano.sh/job-name")
        return Claim(VOLCANO_JOB, name) if name else None

    def said(self, job: KubeObject) -> Said | None:
        state = section(job.body, "status", "state")
        written = text(state, "phase")
        phase = _PHASES.get(written)
        if phase is None:
            return None
        return Said(phase, text(state, "reason") or written, time_ms(state.get("lastTransitionTime")))


def _pods_ahead(job: KubeObject, task: str) -> int | None:
    ahead = 0
    for declared in items(section(job.body, "spec"), "tasks"):
        if text(declared, "name") == task:
            return ahead
        replicas = whole(declared.get("replicas"))
        ahead += 1 if replicas is None else replicas
    return None
