"""Memberships and phases as intervals, and where they go to be kept.

Times come from three clocks: the API server's, each node's, and ours. An interval begins no earlier than the
one before it and no later than now, whatever a node's clock says, so none is negative.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from trilens.model.life import MembershipInterval, Phase, PhaseInterval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
    from trilens.resolve.life import Moment

RECENT_PHASES = 64  # of each workload kept in memory, for people to look at; the sink has them all


class IntervalSink(Protocol):
    """Keeps what happened. An interval is told when it begins (`to_ms` None) and again when it ends; with the
    same beginning it replaces what was told before."""

    def membership(self, interval: MembershipInterval) -> None: ...

    def phase(self, interval: PhaseInterval) -> None: ...

    def workload(self, record: Workload) -> None: ...


class MembershipBook:
    """Who is in which workload, since when."""

    def __init__(self, sink: IntervalSink) -> None:
        self._sink = sink
        self._open: dict[PodKey, MembershipInterval] = {}

    def restore(self, intervals: Iterable[MembershipInterval]) -> None:
        """Open intervals from before a restart of Trilens: they go on, or end with the first look."""
        for interval in intervals:
            if interval.to_ms is None:
                self._open[interval.membership.pod] = interval

    @property
    def open(self) -> Mapping[PodKey, MembershipInterval]:
        return self._open

    def enter(self, membership: Membership, node: str, since_ms: int, at_ms: int) -> None:
        known = self._open.get(membership.pod)
        if known is None:
            self._tell(MembershipInterval(membership, node, min(since_ms, at_ms)))
        elif _same_place(known.membership, membership):
            changed = replace(known, membership=membership, node=node or known.node)
            if changed != known:
                self._tell(changed)
        else:
            self._sink.membership(replace(known, to_ms=max(at_ms, known.from_ms)))
            self._tell(MembershipInterval(membership, node or known.node, max(at_ms, known.from_ms)))

    def leave(self, pod: PodKey, ended_ms: int | None, at_ms: int) -> None:
        known = self._open.pop(pod, None)
        if known is not None:
            end_ms = at_ms if ended_ms is None else min(ended_ms, at_ms)
            self._sink.membership(replace(known, to_ms=max(end_ms, known.from_ms)))

    def _tell(self, interval: MembershipInterval) -> None:
        self._open[interval.membership.pod] = interval
        self._sink.membership(interval)


class PhaseBook:
    """What each workload is at, since when, and how long it was at what before."""

    def __init__(self, sink: IntervalSink) -> None:
        self._sink = sink
        self._open: dict[WorkloadKey, PhaseInterval] = {}
        self._recent: defaultdict[WorkloadKey, deque[PhaseInterval]] = defaultdict(
            lambda: deque(maxlen=RECENT_PHASES)
        )
        self._spent_ms: defaultdict[WorkloadKey, defaultdict[Phase, int]] = defaultdict(
            lambda: defaultdict(int)
        )

    def restore(self, intervals: Iterable[PhaseInterval]) -> None:
        """From before a restart of Trilens, oldest first: all of a workload, or at least the open one."""
        for interval in intervals:
            if interval.to_ms is None:
                self._open[interval.workload] = interval
            else:
                self._close(interval)

    def now(self, workload: WorkloadKey) -> PhaseInterval | None:
        return self._open.get(workload)

    def known(self) -> Iterator[WorkloadKey]:
        yield from tuple(self._open)

    def recent(self, workload: WorkloadKey) -> tuple[PhaseInterval, ...]:
        """The latest intervals, oldest first, the open one last."""
        now = self._open.get(workload)
        return (*self._recent.get(workload, ()), *((now,) if now is not None else ()))

    def time_in_each(self, workload: WorkloadKey, at_ms: int) -> dict[Phase, int]:
        """Milliseconds by phase, the running one counted up to now."""
        spent = dict(self._spent_ms.get(workload, {}))
        now = self._open.get(workload)
        if now is not None:
            spent[now.phase] = spent.get(now.phase, 0) + max(at_ms - now.from_ms, 0)
        return spent

    def enter(self, workload: WorkloadKey, attempt: int, moment: Moment, at_ms: int) -> None:
        known = self._open.get(workload)
        if known is not None and (known.phase, known.attempt) == (moment.phase, attempt):
            if known.reason != moment.reason:
                self._open[workload] = replace(known, reason=moment.reason)  # told when it ends
            return
        begin_ms = at_ms if moment.since_ms is None else min(moment.since_ms, at_ms)
        if known is not None:
            begin_ms = max(begin_ms, known.from_ms)
            self._end(known, begin_ms)
        entered = PhaseInterval(workload, attempt, moment.phase, moment.reason, begin_ms)
        self._open[workload] = entered
        self._sink.phase(entered)

    def end(self, workload: WorkloadKey, at_ms: int) -> None:
        known = self._open.pop(workload, None)
        if known is not None:
            self._end(known, max(at_ms, known.from_ms))

    def forget(self, workload: WorkloadKey) -> None:
        self._recent.pop(workload, None)
        self._spent_ms.pop(workload, None)

    def _end(self, known: PhaseInterval, at_ms: int) -> None:
        ended = replace(known, to_ms=at_ms)
        self._close(ended)
        self._sink.phase(ended)

    def _close(self, ended: PhaseInterval) -> None:
        self._recent[ended.workload].append(ended)
        self._spent_ms[ended.workload][ended.phase] += (ended.to_ms or ended.from_ms) - ended.from_ms


def _same_place(one: Membership, other: Membership) -> bool:
    """The same but for doubts, which come and go with what can be read."""
    return replace(one, doubts=()) == replace(other, doubts=())
