"""Determined, by its labels: it has no objects of its own in the cluster.

Owners: none, or in newer versions Pod -> Job, one Job for each allocation.
Labels: `determined.ai/task_id`, `task_type` (`TRIAL`, `NOTEBOOK`, ...), `experiment_id`, `trial_id`,
`workspace`, `user`, `resource_pool`, `container_id`; `determined` is the allocation, `<task>.<number>`.
A task is the workload; an allocation is one life of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.objects import POD
from trilens.resolve.operators.base import Claim, Operator, Seat
from trilens.resolve.operators.job import JOB
from trilens.resolve.reading import mark, whole

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

_TASK = GroupKind("determined.ai", "Task")


class DeterminedTask(Operator):
    kinds = (_TASK,)
    claims_above = frozenset({POD, JOB})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        allocation = (mark(pod, "determined") or "").rpartition(".")[2]
        role = (mark(pod, "determined.ai/task_type") or "").lower()
        return replace(below, role=role, attempt=whole(allocation))

    def claim(self, pod: KubeObject) -> Claim | None:
        task = mark(pod, "determined.ai/task_id")
        return Claim(_TASK, task, task) if task else None
