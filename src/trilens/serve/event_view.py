"""Events with the workloads that they hit, by who was in which at that time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import astuple, replace

from trilens.model.workload import WorkloadKey
from trilens.serve.access.seen_workloads import shown_keys
from trilens.serve.event_answers import EventAnswer, VictimAnswer, WorkloadName
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from trilens.model.event import EventRecord, Victim
    from trilens.model.life import MembershipInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import Membership
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight

# A pod's end is written by its node, which may be a little late or early; a fault often is what ends it.
_NEAR_MS: Final = 60_000


class MembershipsOfPods(Protocol):
    def members_among(
        self, pods: Collection[tuple[str, str, str]], span: Span, guard: QueryGuard | None = None
    ) -> list[MembershipInterval]: ...


def answers(
    events: Sequence[EventRecord], memberships: MembershipsOfPods, guard: QueryGuard | None
) -> list[EventAnswer]:
    if not events:
        return []
    times = [event.t_ms for event in events]
    span = Span(min(times) - _NEAR_MS, max(times) + _NEAR_MS)
    pods = {(victim.namespace, victim.name, victim.uid) for event in events for victim in event.victims}
    seats = _Seats(memberships.members_among(pods, span, guard))
    return [_answer(event, seats) for event in events]


def seen_events(
    found: Sequence[EventAnswer], workloads: Workloads, sight: Sight, guard: QueryGuard | None
) -> list[EventAnswer]:
    """Those that hit a workload that is seen, without the others that they hit."""
    if sight.is_whole:
        return list(found)
    every = {key for event in found for victim in event.victims if (key := _key(victim)) is not None}
    shown = shown_keys(workloads, sight, every, guard)
    cut = ((event, [one for one in event.victims if _key(one) in shown]) for event in found)
    return [_cut(event, own) for event, own in cut if own]


def _cut(event: EventAnswer, own: list[VictimAnswer]) -> EventAnswer:
    """Whose process it was is not known where there were several."""
    if len(own) == len(event.victims):
        return event
    text = event.title or event.kind
    return replace(event, victims=own, text=text, pid=None, process=None, rank=None)


def _key(victim: VictimAnswer) -> WorkloadKey | None:
    return WorkloadKey(*astuple(victim.workload)) if victim.workload is not None else None


class _Seats:
    """Who was where, found by uid, and by name where an agent knew no uid."""

    def __init__(self, known: Iterable[MembershipInterval]) -> None:
        self._by_uid: defaultdict[str, list[MembershipInterval]] = defaultdict(list)
        self._by_name: defaultdict[tuple[str, str], list[MembershipInterval]] = defaultdict(list)
        for interval in known:
            pod = interval.membership.pod
            self._by_uid[pod.uid].append(interval)
            self._by_name[pod.namespace, pod.name].append(interval)

    def of(self, victim: Victim, event: EventRecord) -> Membership | None:
        t_ms = event.t_ms
        if victim.uid:
            there = self._by_uid.get(victim.uid, [])
        else:
            named = self._by_name.get((victim.namespace, victim.name), [])
            there = [
                one for one in named if one.node == event.node and event.may_be_in(one.membership.pod.cluster)
            ]
            if len({one.membership.pod.cluster for one in there}) > 1:
                return None  # two clusters have it on a node of this name
        nearest = min(there, key=lambda interval: _distance_ms(interval, t_ms), default=None)
        if nearest is None or _distance_ms(nearest, t_ms) > _NEAR_MS:
            return None
        return nearest.membership


def _answer(event: EventRecord, seats: _Seats) -> EventAnswer:
    return EventAnswer(
        event.t_ms,
        event.cluster or None,
        event.node,
        event.kind.value,
        event.code,
        event.title,
        event.asks,
        event.text,
        event.uuid,
        event.gpu,
        event.pci,
        event.pid,
        event.process,
        event.rank,
        [_victim(victim, seats.of(victim, event)) for victim in event.victims],
    )


def _victim(victim: Victim, member: Membership | None) -> VictimAnswer:
    if member is None:
        namespace, name, uid = (told or None for told in victim)
        return VictimAnswer(None, namespace, name, uid, None, None)
    return VictimAnswer(*member.pod, WorkloadName(*member.workload), member.attempt)


def _distance_ms(interval: MembershipInterval, t_ms: int) -> int:
    """0 while it lasted."""
    after_end = 0 if interval.to_ms is None else t_ms - interval.to_ms
    return max(interval.from_ms - t_ms, after_end, 0)
