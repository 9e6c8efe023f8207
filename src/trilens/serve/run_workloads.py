"""Which workloads the processes of runs were in: by their pod, or as a process on a machine without one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.model.node import SAME_START_MS, member_uid
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.life import MembershipInterval
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunId, WriterId
    from trilens.model.workload import Membership, WorkloadKey
    from trilens.serve.event_view import MembershipsOfPods

    ProcessKey = tuple[RunId, int, WriterId]

_SECOND_MS = 1_000  # a start is boot plus ticks, and two readings of the boot differ by whole seconds


def workloads_of(
    processes: Sequence[RankProcess], memberships: MembershipsOfPods, guard: QueryGuard | None = None
) -> dict[RunId, list[WorkloadKey]]:
    """Usually one a run; the latest first. In one question, however many runs there are."""
    members = members_of(processes, memberships, guard)
    found: defaultdict[RunId, dict[WorkloadKey, None]] = defaultdict(dict)
    for process in sorted(processes, key=lambda one: one.started_ms, reverse=True):
        member = members.get(process_key(process))
        if member is not None:
            found[process.run][member.workload] = None
    return {run: [*keys] for run, keys in found.items()}


def members_of(
    processes: Sequence[RankProcess], memberships: MembershipsOfPods, guard: QueryGuard | None = None
) -> dict[ProcessKey, Membership]:
    """What each of these processes is in, where it is in anything."""
    wanted = {pod for process in processes for pod in _pods(process)}
    if not wanted:
        return {}
    begin = min(process.started_ms for process in processes)
    end = max(process.heard_ms for process in processes)
    by_uid: dict[str, Membership] = {}
    by_name: defaultdict[tuple[str, str], list[MembershipInterval]] = defaultdict(list)
    for interval in memberships.members_among(wanted, Span(min(begin, end), max(begin, end)), guard):
        member = interval.membership
        by_uid[member.pod.uid] = member
        by_name[member.pod.namespace, member.pod.name].append(interval)
    found: dict[ProcessKey, Membership] = {}
    for process in processes:
        for namespace, name, uid in _pods(process):
            place = by_uid.get(uid) if uid else _meanwhile(by_name[namespace, name], process)
            if place is not None:
                found[process_key(process)] = place
    return found


def _meanwhile(namesakes: Iterable[MembershipInterval], process: RankProcess) -> Membership | None:
    """The one that was there while the process was: names of pods are used again."""
    there = [
        interval
        for interval in namesakes
        if interval.from_ms <= process.heard_ms
        and (interval.to_ms is None or interval.to_ms >= process.started_ms)
    ]
    return there[-1].membership if there else None


def process_key(process: RankProcess) -> ProcessKey:
    return process.run, process.rank, process.writer


def _pods(process: RankProcess) -> Iterable[tuple[str, str, str]]:
    """Namespace, name and uid, as memberships are asked for; a uid is enough."""
    if process.pod_uid or process.pod:
        yield process.namespace or "", process.pod or "", process.pod_uid or ""
    elif process.pid is not None and process.process_started_ms is not None:
        for shift_ms in range(-SAME_START_MS, SAME_START_MS + 1, _SECOND_MS):
            uid = member_uid(process.node, process.pid, process.process_started_ms + shift_ms)
            yield "", "", uid
