"""KubeRay: RayCluster, RayJob, RayService (ray.io).

Owners: Pod -> RayCluster -> RayJob or RayService, or a RayCluster alone; a RayJob's submitter is
Pod -> Job -> RayJob. The autoscaler is a container of the head, not a pod.
Labels: `ray.io/cluster`, `ray.io/group`, `ray.io/node-type` (`head`, `worker`; `redis-cleanup`), and on the
RayCluster and submitter `ray.io/originated-from-cr-name` and `-crd`.
Rank: the head is 0. Workers have no order, except those of a group of several hosts (1.5 and later):
`ray.io/worker-group-replica-index` is the group, `ray.io/replica-host-index` the place in it.
Attempt: a retry of a RayJob and an upgrade of a RayService make a new RayCluster: each is one life.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.resolve.operators.base import Claim, Operator, Said, Seat, is_suspended
from trilens.resolve.reading import condition, mark, numbered, section, text, time_ms

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

RAYCLUSTER = GroupKind("ray.io", "RayCluster")
RAYJOB = GroupKind("ray.io", "RayJob")
RAYSERVICE = GroupKind("ray.io", "RayService")
_VERSIONS = frozenset({"v1alpha1", "v1"})


class RayCluster(Operator):
    kinds = (RAYCLUSTER,)
    versions = _VERSIONS
    is_service = True

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        role = mark(pod, "ray.io/node-type") or ""
        host = numbered(pod, "ray.io/replica-host-index")
        return replace(
            below,
            role=role,
            group=numbered(pod, "ray.io/worker-group-replica-index") if host is not None else None,
            rank=0 if role == "head" else host,
            life=owner.uid,
        )

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "ray.io/cluster")
        return Claim(RAYCLUSTER, name) if name else None

    def said(self, job: KubeObject) -> Said | None:
        if not is_suspended(job):
            return None
        held = condition(job, "RayClusterSuspended")
        return Said(Phase.SUSPENDED, held.reason if held else "suspended", held.since_ms if held else None)


class _OfRayCluster(Operator):
    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "ray.io/originated-from-cr-name")
        kind = mark(pod, "ray.io/originated-from-crd")
        if name and kind == self.kinds[0].kind:
            return Claim(self.kinds[0], name)
        return None


class RayJob(_OfRayCluster):
    kinds = (RAYJOB,)
    versions = _VERSIONS

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        if mark(pod, "ray.io/node-type"):
            return below
        return replace(below, role="submitter", rank=None)

    def said(self, job: KubeObject) -> Said | None:
        status = section(job.body, "status")
        deployment = text(status, "jobDeploymentStatus")
        ended_ms = time_ms(status.get("endTime"))
        reason = text(status, "reason") or text(status, "jobStatus") or deployment
        if deployment == "Failed" or (deployment == "Complete" and text(status, "jobStatus") != "SUCCEEDED"):
            return Said(Phase.FAILED, reason, ended_ms)
        if deployment == "Complete":
            return Said(Phase.SUCCEEDED, reason, ended_ms)
        if deployment in ("Suspended", "Suspending") or is_suspended(job):
            return Said(Phase.SUSPENDED, deployment or "suspended", None)
        if deployment == "Retrying":
            return Said(Phase.RESTARTING, reason, None)
        return None


class RayService(_OfRayCluster):
    kinds = (RAYSERVICE,)
    versions = _VERSIONS
    is_service = True

    def said(self, job: KubeObject) -> Said | None:
        return None  # its conditions tell how well it serves, not how far it has come
