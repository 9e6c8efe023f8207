"""KAI scheduler (scheduling.run.ai): an overlay, as Kueue is.

Labels: `kai.scheduler/queue` (before 0.6 `runai/queue`), `kai.scheduler/subgroup-name`.
Annotation `pod-group-name` on every pod it schedules. Its pod grouper makes one PodGroup for each owner, and
for a bare pod one of its own, `pg-<pod>-<uid>`: that says nothing. A group that somebody made for several
bare pods is a workload.
Trap: for every GPU shared by fractions a reservation pod holds the device, in a namespace of its own.
Owners: unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.objects import POD
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import mark

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

_RESERVATIONS = ("kai-resource-reservation", "runai-reservation")  # the name before 0.6
_POD_GROUP = GroupKind("scheduling.run.ai", "PodGroup")


class KaiPodGroup(Operator):
    kinds = (_POD_GROUP,)
    known_without_pods = False
    claims_above = frozenset({POD})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        return replace(below, role=mark(pod, "kai.scheduler/subgroup-name") or "")

    def claim(self, pod: KubeObject) -> Claim | None:
        name = pod.annotations.get("pod-group-name")
        return Claim(_POD_GROUP, name) if name and not name.startswith("pg-") else None

    def said(self, job: KubeObject) -> Said | None:
        return None


def is_reservation(pod: KubeObject) -> bool:
    return pod.namespace in _RESERVATIONS
