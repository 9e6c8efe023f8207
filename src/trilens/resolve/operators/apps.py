"""Deployment, StatefulSet, DaemonSet, ReplicaSet (apps), ReplicationController.

Owners: Pod -> ReplicaSet -> Deployment; Pod -> StatefulSet; Pod -> DaemonSet.
Labels: `pod-template-hash`, the tail of the ReplicaSet's name, tells the Deployment's;
`apps.kubernetes.io/pod-index` (1.28 and later) or the tail of the pod's name is a StatefulSet's ordinal.
Trap: group `extensions` in old references is `apps`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import mark, numbered, section, whole

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

DEPLOYMENT = GroupKind("apps", "Deployment")
REPLICASET = GroupKind("apps", "ReplicaSet")
STATEFULSET = GroupKind("apps", "StatefulSet")
DAEMONSET = GroupKind("apps", "DaemonSet")
_REPLICATION_CONTROLLER = GroupKind("", "ReplicationController")


class Apps(Operator):
    kinds = (DEPLOYMENT, REPLICASET, STATEFULSET, DAEMONSET, _REPLICATION_CONTROLLER)
    is_service = True
    known_without_pods = False

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        if owner.group_kind != STATEFULSET:
            return below
        ordinal = numbered(pod, "apps.kubernetes.io/pod-index")
        return replace(below, rank=whole(pod.name.rpartition("-")[2]) if ordinal is None else ordinal)

    def claim(self, pod: KubeObject) -> Claim | None:
        digest = mark(pod, "pod-template-hash")
        owner = pod.controller
        if not digest or owner is None or owner.kind != REPLICASET.kind:
            return None
        name = owner.name.removesuffix("-" + digest)
        return Claim(DEPLOYMENT, name) if name != owner.name else None

    def said(self, job: KubeObject) -> Said | None:
        if whole(section(job.body, "spec").get("replicas")) == 0:
            return Said(Phase.SUSPENDED, "scaled to zero", None)
        return None
