"""JobSet (jobset.x-k8s.io).

Owners: Pod -> Job -> JobSet.
Labels, on Jobs and Pods, and the same as annotations: `jobset.sigs.k8s.io/jobset-name`, `replicatedjob-name`,
`job-index` (within its replicated job), `restart-attempt`; on newer ones `jobset-uid`, `job-global-index`
(over all replicated jobs) and `job-group-index` (where they form groups).
Rank: the pods of all replicated jobs, in the order in which the JobSet declares them; within a Job the
completion index. Where the JobSet cannot be read and a pod's Job is not the first, the rank is not known.
Attempt: `restart-attempt`; it counts recreations of the whole set. An in-place restart keeps the pod and
adds `in-place-restart-attempt`, which counts on top.
Trap: `RestartJob` recreates one Job without a new `restart-attempt`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Seat
from trilens.resolve.operators.job import pods_at_once
from trilens.resolve.reading import items, mark, numbered, section, text, whole

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

JOBSET = GroupKind("jobset.x-k8s.io", "JobSet")
_PREFIX = "jobset.sigs.k8s.io/"
REPLICATED_JOB = _PREFIX + "replicatedjob-name"


class JobSet(Operator):
    kinds = (JOBSET,)
    versions = frozenset({"v1alpha1", "v1alpha2"})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        restarts = numbered(pod, _PREFIX + "restart-attempt")
        in_place = numbered(pod, _PREFIX + "in-place-restart-attempt") or 0
        job_index = numbered(pod, _PREFIX + "job-index")
        group = numbered(pod, _PREFIX + "job-global-index")
        return replace(
            below,
            role=mark(pod, REPLICATED_JOB) or "",
            group=job_index if group is None else group,
            rank=_rank(pod, owner.found, job_index, below.rank),
            attempt=None if restarts is None else restarts + in_place,
        )

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, _PREFIX + "jobset-name")
        return Claim(JOBSET, name, mark(pod, _PREFIX + "jobset-uid") or "") if name else None


def _rank(pod: KubeObject, jobset: KubeObject | None, job_index: int | None, index: int | None) -> int | None:
    if index is None:
        return None
    ahead = _pods_ahead(pod, jobset, job_index) if jobset is not None else None
    if ahead is None:
        # Unread: only the first Job of all is sure to have nobody before it.
        ahead = 0 if numbered(pod, _PREFIX + "job-global-index") == 0 else None
    return None if ahead is None else ahead + index


def _pods_ahead(pod: KubeObject, jobset: KubeObject, job_index: int | None) -> int | None:
    """How many pods stand before this pod's Job."""
    name = mark(pod, REPLICATED_JOB)
    ahead = 0
    for replicated in items(section(jobset.body, "spec"), "replicatedJobs"):
        at_once = pods_at_once(section(replicated, "template", "spec"))
        if text(replicated, "name") == name:
            if job_index == 0:
                return ahead
            return ahead + job_index * at_once if job_index is not None and at_once is not None else None
        replicas = whole(replicated.get("replicas"))
        if at_once is None:
            return None
        ahead += at_once * (1 if replicas is None else replicas)
    return None
