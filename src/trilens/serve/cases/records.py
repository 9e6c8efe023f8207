"""What the store has of a case: workloads, pods, phases, GPUs, faults, findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.case_file import GpuSeat, SubjectKind
from trilens.model.finding import FindingKind
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trilens.diagnose.case_file import CaseSubject
    from trilens.model.event import EventRecord
    from trilens.model.finding import Finding, FindingInterval
    from trilens.model.gpu import BindingInterval, Gpu
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import GpuUuid, PodKey, Workload, WorkloadKey
    from trilens.serve.cases.subjects import Meant
    from trilens.store.events import EventRecords
    from trilens.store.findings import FindingRecords
    from trilens.store.gpus import GpuRecords
    from trilens.store.workloads import Span, WorkloadRecords

_MOST_EVENTS: Final = 10_000  # that are looked at: a broken GPU may write thousands of lines an hour
_KEPT_EVENTS: Final = 2_000
_PHASES: Final = 200


@dataclass(frozen=True, slots=True)
class Known:
    """The workload that it is about first; members and phases in the order of their beginning."""

    workloads: tuple[Workload, ...]
    members: tuple[MembershipInterval, ...]
    phases: tuple[PhaseInterval, ...]
    gpus: tuple[GpuSeat, ...]
    events: tuple[EventRecord, ...]
    places: Mapping[PodKey, str]  # the last node of each pod, "" of one that had none
    missing: tuple[Missing, ...] = ()

    @property
    def keys(self) -> frozenset[WorkloadKey]:
        return frozenset(one.key for one in self.workloads)

    @property
    def pods(self) -> frozenset[PodKey]:
        return frozenset(self.places)

    @property
    def nodes(self) -> frozenset[str]:
        return _nodes(self.members, self.gpus) | ({*self.places.values()} - {""})


@dataclass(frozen=True, slots=True)
class CaseRecords:
    """Thread-safe."""

    workloads: WorkloadRecords
    gpus: GpuRecords
    events: EventRecords
    findings: FindingRecords

    def read(self, meant: Meant, span: Span, guard: QueryGuard | None) -> Known:
        workloads, members, phases = self._lives(meant, span, guard)
        places = {one.membership.pod: one.node for one in members}
        if meant.alone is not None:
            places[meant.alone.pod] = meant.alone.node
        gpus = self._seats(meant, places.keys(), span, guard)
        known = Known(workloads, members, phases, gpus, (), places)
        is_node = meant.subject.kind is SubjectKind.NODE
        read = self._events_on if is_node else self._events_of
        events, is_cut = read(meant.subject, known, span, guard)
        missing = (_cut(_MOST_EVENTS),) if is_cut else ()
        if not is_cut and len(events) > _KEPT_EVENTS:
            missing = (_cut(_KEPT_EVENTS),)
        return replace(known, events=tuple(reversed(events[:_KEPT_EVENTS])), missing=missing)

    def findings_of(
        self,
        meant: Meant,
        known: Known,
        nodes: Collection[str],
        runs: Collection[str],
        span: Span,
        guard: QueryGuard | None,
    ) -> tuple[FindingInterval, ...]:
        """Those of its workloads, pods, runs, nodes and GPUs."""
        found = self.findings.during(span.start_ms, span.end_ms, guard=guard)
        uuids = {one.uuid for one in known.gpus}
        keys, pods = known.keys, known.pods

        is_of_node = meant.subject.kind is SubjectKind.NODE

        def concerns(finding: Finding) -> bool:
            subject = finding.subject
            if is_of_node and finding.kind is FindingKind.GPU_FAULT and subject.node == meant.subject.name:
                return meant.subject.may_be_in(subject.known_cluster)  # it outlasts the job that had the GPU
            if subject.workload is not None:
                return subject.workload in keys
            if subject.run is not None:
                return subject.run in runs
            if subject.gpu is not None:
                return subject.gpu in uuids
            if subject.pod is not None:
                return subject.pod in pods
            return subject.node in nodes and meant.subject.may_be_in(subject.cluster)

        return tuple(one for one in found if concerns(one.finding))

    def _lives(
        self, meant: Meant, span: Span, guard: QueryGuard | None
    ) -> tuple[tuple[Workload, ...], tuple[MembershipInterval, ...], tuple[PhaseInterval, ...]]:
        if meant.subject.kind is SubjectKind.NODE:
            return self._on_node(meant, span, guard)
        history = meant.history
        if history is None:
            return (), (), ()
        members = history.members
        if meant.subject.kind is SubjectKind.POD and meant.member is not None:
            pod = meant.member.membership.pod
            members = [one for one in members if one.membership.pod == pod]
        there = [one for one in members if one.to_ms is None or one.to_ms >= span.start_ms]
        if not there:  # all are gone: those of its last life
            last = max((one.membership.attempt for one in members), default=0)
            there = [one for one in members if one.membership.attempt == last]
        return (history.record,), tuple(there), tuple(history.phases[-_PHASES:])

    def _on_node(
        self, meant: Meant, span: Span, guard: QueryGuard | None
    ) -> tuple[tuple[Workload, ...], tuple[MembershipInterval, ...], tuple[PhaseInterval, ...]]:
        cluster, node = meant.subject.cluster, meant.subject.name
        workloads, members, phases = [], [], []
        for history in self.workloads.during(span, cluster=cluster or None, guard=guard):
            here = [one for one in history.members if one.node == node]
            if here:
                workloads.append(history.record)
                members += here
                phases += history.phases[-_PHASES:]
        return tuple(workloads), tuple(members), tuple(phases)

    def _seats(
        self, meant: Meant, pods: Collection[PodKey], span: Span, guard: QueryGuard | None
    ) -> tuple[GpuSeat, ...]:
        bindings = [
            one
            for one in self.gpus.bindings_of(pods, span.end_ms, guard)
            if one.to_ms is None or one.to_ms >= span.start_ms
        ]
        uuids = {one.binding.gpu.uuid for one in bindings}
        there = {one.gpu.key.uuid: one.gpu for one in self.gpus.gpus_named(uuids, span.end_ms, guard)}
        if meant.subject.kind is SubjectKind.NODE:
            for one in self.gpus.gpus_at(span.end_ms, node=meant.subject.name, guard=guard):
                if meant.subject.may_be_in(one.gpu.cluster):
                    there[one.gpu.key.uuid] = one.gpu
        return tuple(_seats(there, bindings))

    def _events_of(
        self, subject: CaseSubject, known: Known, span: Span, guard: QueryGuard | None
    ) -> tuple[list[EventRecord], bool]:
        """Newest first; and whether earlier ones were cut off."""
        nodes, uids = known.nodes, {pod.uid for pod in known.pods}
        found = self.events.between(span.start_ms, span.end_ms, limit=_MOST_EVENTS, guard=guard)
        ours = [
            one
            for one in found
            if (one.node in nodes and one.may_be_in(subject.cluster))
            or any(hit.uid in uids for hit in one.victims)
        ]
        return ours, len(found) >= _MOST_EVENTS

    def _events_on(
        self, subject: CaseSubject, known: Known, span: Span, guard: QueryGuard | None
    ) -> tuple[list[EventRecord], bool]:
        """The same of a node: what its kernel told, and what hit its pods. Those of a large fleet would leave
        no room for them."""
        first_ms, last_ms, cluster = span.start_ms, span.end_ms, subject.cluster
        pods = [(pod.namespace, pod.name, pod.uid) for pod in known.pods]
        told = self.events.between(
            first_ms, last_ms, node=subject.name, cluster=cluster, limit=_MOST_EVENTS, guard=guard
        )
        hit = self.events.of_pods(cluster, pods, first_ms, last_ms, limit=_MOST_EVENTS, guard=guard)
        each = {(one.cluster, one.node, one.id): one for one in (*told, *hit)}
        ours = sorted(each.values(), key=lambda one: -one.t_ms)
        return ours, max(len(told), len(hit)) >= _MOST_EVENTS


def _cut(most: int) -> Missing:
    return Missing(f"events before the latest {most:,} that were looked at", "trilens events lists them")


def _nodes(members: Iterable[MembershipInterval], gpus: Iterable[GpuSeat]) -> frozenset[str]:
    return frozenset({one.node for one in members} | {seat.node for seat in gpus}) - {""}


def _seats(gpus: Mapping[GpuUuid, Gpu], bindings: Sequence[BindingInterval]) -> Iterable[GpuSeat]:
    """The latest holder of each; of one that nobody holds, none."""
    held = {one.binding.gpu.uuid: one.binding for one in bindings}
    for uuid in sorted({*gpus, *held}):
        gpu, binding = gpus.get(uuid), held.get(uuid)
        yield GpuSeat(
            uuid,
            gpu.node if gpu is not None else "",
            gpu.index if gpu is not None else "",
            gpu.model if gpu is not None else "",
            binding.pod if binding is not None else None,
            binding.rank if binding is not None else None,
        )
