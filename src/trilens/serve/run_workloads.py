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
    """What each of these processes is in, where it is in anything, and it is clear in what."""
    found = _places(processes, memberships, guard)
    own = ((process, _own(process, found[process_key(process)])) for process in processes)
    return {process_key(process): member for process, member in own if member is not None}


def doubts_of(
    processes: Sequence[RankProcess], memberships: MembershipsOfPods, guard: QueryGuard | None = None
) -> list[str]:
    """Why it is not clear where processes of a run are, a line each."""
    found = _places(processes, memberships, guard)
    lines: dict[str, None] = {}
    for process in processes:
        places = found[process_key(process)]
        if not places or _own(process, places) is not None:
            continue
        pod = f"the pod {places[0].pod.namespace}/{places[0].pod.name} of rank {process.rank}"
        there = " and ".join(sorted({place.pod.cluster for place in places}))
        if process.cluster is None:
            lines[f"{pod} may be one of {there}: the program does not say which; set TRILENS_CLUSTER"] = None
        else:
            lines[f"{pod} is one of {there}, but told as of {process.cluster}: it counts for neither"] = None
    said = sorted({process.cluster for process in processes if process.cluster is not None})
    if len(said) > 1:
        lines[f"processes of this run are in {' and '.join(said)}: two runs may have one id"] = None
    return [*lines]


def _places(
    processes: Sequence[RankProcess], memberships: MembershipsOfPods, guard: QueryGuard | None
) -> dict[ProcessKey, list[Membership]]:
    """All that fit what a process says of its pod, whatever their cluster; the latest last."""
    wanted = {pod for process in processes for pod in _pods(process)}
    if not wanted:
        return {process_key(process): [] for process in processes}
    begin = min(process.started_ms for process in processes)
    end = max(process.heard_ms for process in processes)
    by_uid: defaultdict[str, list[MembershipInterval]] = defaultdict(list)
    by_name: defaultdict[tuple[str, str], list[MembershipInterval]] = defaultdict(list)
    for interval in memberships.members_among(wanted, Span(min(begin, end), max(begin, end)), guard):
        pod = interval.membership.pod
        by_uid[pod.uid].append(interval)
        by_name[pod.namespace, pod.name].append(interval)
    return {
        process_key(process): [
            interval.membership
            for namespace, name, uid in _pods(process)
            for interval in (by_uid[uid] if uid else _meanwhile(by_name[namespace, name], process))
        ]
        for process in processes
    }


def _own(process: RankProcess, places: Sequence[Membership]) -> Membership | None:
    """The one that it can only be: in the cluster that it said, or in the only one there is."""
    own = [place for place in places if process.cluster in (None, place.pod.cluster)]
    return own[-1] if len({place.pod.cluster for place in own}) == 1 else None


def _meanwhile(namesakes: Iterable[MembershipInterval], process: RankProcess) -> list[MembershipInterval]:
    """Those that were there while the process was: names of pods are used again."""
    return [
        interval
        for interval in namesakes
        if interval.from_ms <= process.heard_ms
        and (interval.to_ms is None or interval.to_ms >= process.started_ms)
    ]


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
