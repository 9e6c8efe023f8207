"""Which life of its workload a pod was made for, where the operator does not say.

A pod that takes the seat of an earlier one (same role, group and rank) belongs to the next life; so does
every pod of a new RayCluster. A pod's attempt is that of its making and does not change while it lives: pods
that survive beside a replaced one keep theirs, and the workload's attempt is the highest.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.resolve.stages import is_over

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.kubernetes import KubeObject
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import WorkloadKey
    from trilens.resolve.placement import Placed


class _Place(NamedTuple):
    """What is held by one after the other. All None for the lives of a whole workload."""

    role: str | None = None
    group: int | None = None
    rank: int | None = None


class _Holder(NamedTuple):
    since_ms: int
    identity: str  # a pod's uid, or what the pods of one life share
    number: int | None  # where it is known from before


class Attempts:
    def __init__(self) -> None:
        self._holders: defaultdict[WorkloadKey, defaultdict[_Place, dict[str, _Holder]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._known: dict[str, int] = {}  # by pod uid, from before a restart of Trilens

    def restore(self, interval: MembershipInterval) -> None:
        """What was counted before: later pods count on from here."""
        member = interval.membership
        self._known[member.pod.uid] = member.attempt
        holder = _Holder(interval.from_ms, member.pod.uid, member.attempt)
        places = [_Place()]
        if member.node_rank is not None:
            places.append(_Place(member.role, member.group, member.node_rank))
        for place in places:
            self._holders[member.workload][place].setdefault(member.pod.uid, holder)

    def take(self, placed: Placed) -> bool:
        """Note who holds a seat; true where that is news to others who held it or will."""
        pod, seat = placed.pod, placed.placement.seat
        place, identity = _held(placed)
        if place is None:
            return False
        holders = self._holders[placed.placement.workload][place]
        before = holders.get(identity)
        since_ms = pod.created_ms
        if seat.life:
            life = next((obj for obj in placed.placement.objects if obj.uid == seat.life), pod)
            since_ms = min(life.created_ms, before.since_ms if before is not None else pod.created_ms)
        number = self._known.get(pod.uid, before.number if before is not None else None)
        holders[identity] = _Holder(since_ms, identity, number)
        return holders[identity] != before and len(holders) > 1

    def release(self, placed: Placed) -> None:
        """It turned out never to have sat there."""
        place, identity = _held(placed)
        if place is not None and identity == placed.pod.uid:
            self._holders[placed.placement.workload][place].pop(identity, None)

    def of(self, placed: Placed) -> int:
        if placed.placement.seat.attempt is not None:
            return placed.placement.seat.attempt
        place, identity = _held(placed)
        if place is None:
            return 0
        number = -1
        for holder in sorted(self._holders[placed.placement.workload][place].values(), key=_by_time):
            number = number + 1 if holder.number is None else holder.number
            if holder.identity == identity:
                return number
        return 0

    def forget(self, workload: WorkloadKey) -> None:
        for holders in self._holders.pop(workload, {}).values():
            for identity in holders:
                self._known.pop(identity, None)


def sitting(pods: Iterable[Placed]) -> list[KubeObject]:
    """Who makes up the workload now: the newest pod of each seat; of those without seats the ones that live,
    or all where nobody does."""
    seated: dict[_Place, KubeObject] = {}
    loose: list[KubeObject] = []
    for placed in pods:
        seat = placed.placement.seat
        if seat.rank is None:
            loose.append(placed.pod)
            continue
        place = _Place(seat.role, seat.group, seat.rank)
        known = seated.get(place)
        if known is None or (known.created_ms, known.uid) < (placed.pod.created_ms, placed.pod.uid):
            seated[place] = placed.pod
    alive = [pod for pod in loose if not is_over(pod)]
    if not alive and not seated:
        alive = loose
    return sorted((*seated.values(), *alive), key=lambda pod: pod.name)


def _held(placed: Placed) -> tuple[_Place | None, str]:
    seat = placed.placement.seat
    if seat.attempt is not None:
        return None, ""  # the operator counts
    if seat.life:
        return _Place(), seat.life
    if seat.rank is None:
        return None, ""  # nothing tells whose place it takes
    return _Place(seat.role, seat.group, seat.rank), placed.pod.uid


def _by_time(holder: _Holder) -> tuple[int, str]:
    return holder.since_ms, holder.identity
