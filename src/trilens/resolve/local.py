"""Workloads of machines without Kubernetes, from the processes on their GPUs.

A process stands where a pod does. Nobody tells how it ended: its exit status goes to its parent alone. So its
workload is running while one of its processes is there, and then in no phase, as a pod that nobody saw end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.gpu import Claim, ClaimSource
from trilens.model.life import Phase
from trilens.model.node import SAME_START_MS, member_name, member_uid
from trilens.model.workload import Membership, PodKey, Workload
from trilens.resolve.intervals import MembershipBook, PhaseBook
from trilens.resolve.life import Moment
from trilens.resolve.ownership import OwnershipRules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trilens.model.gpu import BindingInterval, GpuBinding
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.node import LocalJob, LocalProcess, NodeJobs, Restarts
    from trilens.model.workload import WorkloadKey
    from trilens.resolve.intervals import IntervalSink
    from trilens.settings.ownership import OwnershipSettings


_RESTARTS_WITHIN_MS: Final = 3_600_000  # what comes back so soon after it ended goes on where it was


class _Ended(NamedTuple):
    at_ms: int
    record: Workload
    attempts: dict[Restarts, int]


class _Seat(NamedTuple):
    started_ms: int
    pod: PodKey


class LocalResolver:
    """All machines together: a job may run on several. Not thread-safe, but for `claims`, `members` and
    `workloads`."""

    def __init__(self, cluster: str, ownership: OwnershipSettings, sink: IntervalSink) -> None:
        self.cluster = cluster
        self._rules = OwnershipRules(ownership)
        self._sink = sink
        self._members = MembershipBook(sink)
        self._phases = PhaseBook(sink)
        self._records: dict[WorkloadKey, Workload] = {}
        self._seats: defaultdict[str, dict[int, _Seat]] = defaultdict(dict)  # by node, then process number
        self._attempts: defaultdict[WorkloadKey, dict[Restarts, int]] = defaultdict(dict)
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._ended: dict[WorkloadKey, _Ended] = {}  # lately: a launcher may be starting it again

    def restore(
        self,
        records: Iterable[Workload],
        members: Iterable[MembershipInterval],
        phases: Iterable[PhaseInterval],
        bindings: Iterable[BindingInterval] = (),
    ) -> None:
        """What was open when Trilens last ran: it goes on, or ends with the first look that misses it."""
        self._records = {record.key: record for record in records}
        self._members.restore(members)
        self._phases.restore(phases)
        for pod in self._members.open:
            node, pid, started_ms = pod.uid.rsplit(":", 2)
            self._seats[node][int(pid)] = _Seat(int(started_ms), pod)
        for interval in bindings:
            member = self._members.open.get(interval.binding.pod)
            if member is not None:
                self._claims[member.node] = (*self._claims.get(member.node, ()), _claim(interval.binding))

    def take(self, seen: NodeJobs, at_ms: int) -> bool:
        """One look at one machine: what is not there any more has ended. Returns whether it is new."""
        before = self._seats[seen.node]
        were = self._memberships(before)
        here: dict[int, _Seat] = {}
        claims: list[Claim] = []
        concerned = {self._workload_of(seat) for seat in before.values()}
        for job in seen.jobs:
            workload = self._known_as(job, before)
            concerned.add(workload)
            for process in job.processes:
                seat = self._seat(seen.node, workload.namespace, process, before.get(process.pid))
                here[process.pid] = seat
                self._enter(seat.pod, workload, process, seen.node, at_ms)
                claims += [
                    Claim(
                        gpu,
                        ClaimSource.PROCESS,
                        self.cluster,
                        seat.pod.namespace,
                        seat.pod.name,
                        rank=process.rank,
                        local_rank=process.local_rank,
                    )
                    for gpu in process.gpus
                ]
        stayed = {seat.pod for seat in here.values()}
        for seat in before.values():
            if seat.pod not in stayed:
                self._members.leave(seat.pod, None, at_ms)
        self._seats[seen.node] = here
        self._claims[seen.node] = tuple(claims)
        if self._memberships(here) == were and all(map(self._phases.now, concerned)):
            return False
        self._settle(concerned, at_ms)
        return True

    def glimpse(self, node: str, job: LocalJob, at_ms: int) -> None:
        """Processes that something told of at a moment. One that lived too short for a look was there
        from its start until then; those that a look has seen, or will see, are not changed by it."""
        workload = job.workload._replace(cluster=self.cluster)
        concerned = set() if self._phases.now(workload) is not None else {workload}
        for process in job.processes:
            known = self._seats[node].get(process.pid)
            if known is not None and _is_same(known, process):
                continue
            seat = self._seat(node, workload.namespace, process, None)
            self._enter(seat.pod, workload, process, node, at_ms)
            self._settle(concerned, at_ms)
            self._members.leave(seat.pod, at_ms, at_ms)
        self._settle(concerned, at_ms)

    def forget(self, nodes: Collection[str], at_ms: int) -> None:
        """Machines that nobody asks about any more have no processes as far as anybody knows."""
        for node in nodes:
            seats = self._seats.pop(node, {})
            self._claims.pop(node, None)
            concerned = {self._workload_of(seat) for seat in seats.values()}
            for seat in seats.values():
                self._members.leave(seat.pod, None, at_ms)
            self._settle(concerned, at_ms)

    @property
    def nodes(self) -> frozenset[str]:
        """The machines that have, or were last seen to have, processes on GPUs."""
        return frozenset(node for node, seats in self._seats.items() if seats)

    def has_processes(self, node: str) -> bool:
        return bool(self._seats.get(node))

    def workloads(self) -> Mapping[WorkloadKey, Workload]:
        return dict(self._records)

    @property
    def open_memberships(self) -> Mapping[PodKey, MembershipInterval]:
        return self._members.open

    def members(self) -> dict[PodKey, MembershipInterval]:
        """As they are now, for another thread."""
        return dict(self._members.open)

    def claims(self) -> Iterable[Claim]:
        """Which process has which GPU, as of the last look at each machine."""
        return [claim for claims in list(self._claims.values()) for claim in claims]

    def phase(self, workload: WorkloadKey) -> PhaseInterval | None:
        return self._phases.now(workload)

    def time_in_each(self, workload: WorkloadKey, at_ms: int) -> dict[Phase, int]:
        return self._phases.time_in_each(workload, at_ms)

    def _memberships(self, seats: Mapping[int, _Seat]) -> dict[PodKey, MembershipInterval]:
        return {seat.pod: self._members.open[seat.pod] for seat in seats.values()}

    def _workload_of(self, seat: _Seat) -> WorkloadKey:
        return self._members.open[seat.pod].membership.workload

    def _known_as(self, job: LocalJob, before: Mapping[int, _Seat]) -> WorkloadKey:
        """The uid of a process group holds the start of its leader, which may be told a little differently
        the next time: who was in it is in it still."""
        told = job.workload._replace(cluster=self.cluster)
        for process in job.processes:
            seat = before.get(process.pid)
            if seat is not None and _is_same(seat, process):
                known = self._workload_of(seat)
                if known._replace(uid="") == told._replace(uid=""):
                    return known
        return told

    def _seat(self, node: str, namespace: str, process: LocalProcess, known: _Seat | None) -> _Seat:
        if known is not None and known.pod.namespace == namespace and _is_same(known, process):
            return known
        name = member_name(node, process.name, process.pid)
        uid = member_uid(node, process.pid, process.started_ms)
        return _Seat(process.started_ms, PodKey(self.cluster, namespace, name, uid))

    def _enter(
        self, pod: PodKey, workload: WorkloadKey, process: LocalProcess, node: str, at_ms: int
    ) -> None:
        known = self._members.open.get(pod)
        if known is not None and known.membership.workload == workload:
            attempt = known.membership.attempt
            self._attempts[workload].setdefault(process.restarts, attempt)
        else:
            attempt = self._attempt(workload, process.restarts)
        membership = Membership(pod, workload, attempt, node_rank=process.rank)
        self._members.enter(membership, node, process.started_ms, at_ms)

    def _attempt(self, workload: WorkloadKey, restarts: Restarts) -> int:
        """Launchers count their restarts, but an inner one begins anew with the outer: what was not seen
        before comes after all that was."""
        seen = self._attempts[workload]
        if not seen and workload in self._ended:
            seen |= self._ended[workload].attempts
        if restarts not in seen:
            seen[restarts] = max(seen.values()) + 1 if seen else sum(restarts)
        return seen[restarts]

    def _settle(self, concerned: Collection[WorkloadKey], at_ms: int) -> None:
        of_workload: defaultdict[WorkloadKey, list[MembershipInterval]] = defaultdict(list)
        for interval in self._members.open.values():
            if interval.membership.workload in concerned:
                of_workload[interval.membership.workload].append(interval)
        for workload in concerned:
            members = of_workload.get(workload)
            if not members:
                self._end(workload, at_ms)
                continue
            attempt = max(member.membership.attempt for member in members)
            began_ms = min(member.from_ms for member in members if member.membership.attempt == attempt)
            self._tell(workload, attempt, began_ms)
            before = self._ended.pop(workload, None)
            if before is not None and before.record.attempt != attempt:  # its end was seen late
                began_ms = max(began_ms, before.at_ms)
            self._phases.enter(workload, attempt, Moment(Phase.RUNNING, "", began_ms), at_ms)

    def _end(self, workload: WorkloadKey, at_ms: int) -> None:
        self._phases.end(workload, at_ms)
        self._phases.forget(workload)
        record, attempts = self._records.pop(workload, None), self._attempts.pop(workload, {})
        if record is not None:
            self._ended = {
                key: ended for key, ended in self._ended.items() if at_ms - ended.at_ms < _RESTARTS_WITHIN_MS
            }
            self._ended[workload] = _Ended(at_ms, record, attempts)

    def _tell(self, workload: WorkloadKey, attempt: int, began_ms: int) -> None:
        known = self._records.get(workload)
        before = self._ended[workload].record if workload in self._ended else known
        created_ms = began_ms if before is None or before.created_ms is None else before.created_ms
        belonging = self._rules.of((), workload.namespace, None)
        record = Workload(workload, min(created_ms, began_ms), attempt, *belonging)
        if record != known:
            self._records[workload] = record
            self._sink.workload(record)


def _claim(binding: GpuBinding) -> Claim:
    """What was last told of a process before a restart."""
    return Claim(
        binding.gpu,
        ClaimSource.PROCESS,
        binding.pod.cluster,
        binding.pod.namespace,
        binding.pod.name,
        rank=binding.rank,
        local_rank=binding.local_rank,
    )


def _is_same(seat: _Seat, process: LocalProcess) -> bool:
    return abs(seat.started_ms - process.started_ms) <= SAME_START_MS
