"""LeaderWorkerSet (leaderworkerset.x-k8s.io).

Owners: leader Pod -> StatefulSet -> LeaderWorkerSet; worker Pod -> StatefulSet -> **leader Pod** -> ...
Labels: `leaderworkerset.sigs.k8s.io/name`, `group-index`, `worker-index` (0 is the leader), `group-key`;
annotation `leader-name` on workers.
Rank: `worker-index`, within its group: each group is a model replica, a world of its own.
Attempt: with `RecreateGroupOnPodRestart` the group is made anew under the same names: seats are counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Seat
from trilens.resolve.reading import mark, numbered

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

LEADERWORKERSET = GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
_PREFIX = "leaderworkerset.sigs.k8s.io/"


class LeaderWorkerSet(Operator):
    kinds = (LEADERWORKERSET,)
    versions = frozenset({"v1"})
    is_service = True

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        index = numbered(pod, _PREFIX + "worker-index")
        return replace(
            below,
            role="" if index is None else "worker" if index else "leader",
            group=numbered(pod, _PREFIX + "group-index"),
            rank=index,
        )

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, _PREFIX + "name")
        return Claim(LEADERWORKERSET, name) if name else None
