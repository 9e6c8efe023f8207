"""Kueue (kueue.x-k8s.io): an overlay. Owners stay; only a group of plain pods becomes a workload.

Owners: none of its own; a Workload object is owned by the job (or by each pod of a group) it admits.
Labels: `kueue.x-k8s.io/queue-name` (once an annotation), `pod-group-name`, `podset`, `pod-group-pod-index`;
annotations `pod-group-total-count` and `pod-group-pod-index-label`, which names another label for the index.
A pod group's Workload has the group's name. StatefulSets and LeaderWorkerSets under Kueue carry the group
labels too, but have owners, which win.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.resolve.objects import POD
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import condition, conditions, mark, numbered

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

KUEUE_WORKLOAD = GroupKind("kueue.x-k8s.io", "Workload")
_PREFIX = "kueue.x-k8s.io/"
QUEUE = _PREFIX + "queue-name"


class KueuePodGroup(Operator):
    kinds = (KUEUE_WORKLOAD,)
    versions = frozenset({"v1alpha2", "v1beta1", "v1beta2"})
    known_without_pods = False  # a Workload of a job is that job's shadow
    claims_above = frozenset({POD})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        index = numbered(pod, pod.annotations.get(_PREFIX + "pod-group-pod-index-label", ""))
        if index is None:
            index = numbered(pod, _PREFIX + "pod-group-pod-index")
        return replace(below, role=mark(pod, _PREFIX + "podset") or "", rank=index)

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, _PREFIX + "pod-group-name")
        return Claim(KUEUE_WORKLOAD, name) if name else None

    def said(self, job: KubeObject) -> Said | None:
        if (ended := condition(job, "Finished")) is None:
            return None
        # The reason is Succeeded or Failed; of old JobFinished, where only the message tells.
        failed = ended.reason == "Failed" or "fail" in ended.message.lower()
        return Said(Phase.FAILED if failed else Phase.SUCCEEDED, ended.reason, ended.since_ms)


def admission(job: KubeObject) -> Said | None:
    """What the queue says of a Workload: None once it is admitted."""
    if (evicted := condition(job, "Evicted")) is not None:
        phase = Phase.PREEMPTED if evicted.reason == "Preempted" else Phase.EVICTED
        detail = condition(job, "Preempted")
        return Said(phase, detail.reason if detail else evicted.reason, evicted.since_ms)
    if condition(job, "Admitted") is not None:
        return None
    if (reserved := condition(job, "QuotaReserved")) is not None:
        return Said(Phase.QUEUED, "waits for admission checks", reserved.since_ms)
    return Said(Phase.QUEUED, pending_reason(job), job.created_ms)


def admitted_ms(job: KubeObject) -> int | None:
    admitted = condition(job, "Admitted")
    return admitted.since_ms if admitted is not None else None


def pending_reason(job: KubeObject) -> str:
    """Why it has no quota yet, in Kueue's words."""
    for written in conditions(job):
        if written.type == "QuotaReserved" and not written.holds and written.message:
            return written.message
    return "waits for quota"
