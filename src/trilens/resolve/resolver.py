"""All workloads of one cluster, kept up to date from the changes of its objects.

Changes only mark what they touch; `settle` works that out and tells the sink. Call it first when the first
lists are in, so that no pod is placed before its owners are known, then after every batch of changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.resolve.attempts import Attempts, sitting
from trilens.resolve.departed import Departed, DepartedPods
from trilens.resolve.events import EVENT_KINDS, EventLog, about_whom
from trilens.resolve.intervals import MembershipBook, PhaseBook
from trilens.resolve.life import Member, View, phase_now, way_here
from trilens.resolve.nodes import Nodes
from trilens.resolve.objects import POD, Objects, object_name, owner_names
from trilens.resolve.operators import BY_KIND
from trilens.resolve.operators.kueue import KUEUE_WORKLOAD
from trilens.resolve.ownership import OwnershipRules
from trilens.resolve.placement import NoWorkload, Placed, Placement, is_system, place, workload_above
from trilens.resolve.readable import Readable
from trilens.resolve.reading import section, text
from trilens.resolve.record import record_of
from trilens.resolve.stages import clock_error_ms, finished_ms, is_over, milestones_of, stage_of
from trilens.resolve.topology import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.model.kubernetes import KubeObject
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.resolve.intervals import IntervalSink
    from trilens.resolve.objects import ObjectName
    from trilens.settings.ownership import OwnershipSettings
    from trilens.settings.topology import TopologySettings

_NODE = GroupKind("", "Node")
_NAMESPACE = GroupKind("", "Namespace")

PATIENCE_MS = 10_000  # watches run side by side: a pod may be seen before its owner


@dataclass(slots=True)
class _Job:
    """What is known of one workload."""

    pods: dict[str, Placed] = field(default_factory=dict)  # by uid
    record: Workload | None = None
    skew_ms: int = 0


class ClusterResolver:
    def __init__(
        self, cluster: str, ownership: OwnershipSettings, topology: TopologySettings, sink: IntervalSink
    ) -> None:
        self.cluster = cluster
        self._rules = OwnershipRules(ownership)
        self._system_namespaces = ownership.system_namespaces
        self.topology = topology
        self._sink = sink
        self._objects = Objects()
        self._readable = Readable()
        self._events = EventLog()
        self._attempts = Attempts()
        self._members = MembershipBook(sink)
        self._phases = PhaseBook(sink)
        self._placed: dict[str, Placed] = {}
        self._jobs: defaultdict[WorkloadKey, _Job] = defaultdict(_Job)
        self._no_workload: dict[PodKey, str] = {}
        self._claimants: defaultdict[ObjectName, set[str]] = defaultdict(set)
        self._nodes = Nodes()
        self._as_member: dict[str, tuple[KubeObject, Member]] = {}  # by pod, until something is told of it
        self._waiting_since: dict[str, int] = {}  # pods whose owner is not there, or not yet
        self._over: set[PodKey] = set()  # pods that have ended, and lie about
        self._is_first_look = True
        self._dirty_pods: dict[str, None] = {}
        self._dirty_jobs: dict[WorkloadKey, None] = {}
        self._left: list[KubeObject] = []
        self._departed = DepartedPods()

    # What goes in

    def restore(
        self, memberships: Iterable[MembershipInterval], phases: Iterable[PhaseInterval] = ()
    ) -> None:
        """What the sink kept of this cluster, before the first change: open intervals and counts go on."""
        kept = list(memberships)
        for interval in kept:
            self._attempts.restore(interval)
            self._dirty_jobs[interval.membership.workload] = None
            if interval.to_ms is not None:
                self._over.add(interval.membership.pod)
        self._members.restore(kept)
        self._phases.restore(phases)
        for key in self._phases.known():
            self._dirty_jobs[key] = None

    def synced(self, group_kind: GroupKind) -> None:
        """The first list of this kind is in."""
        if not self._readable.is_synced(group_kind):
            self._readable.synced(group_kind)
            self._look_again()

    def refused(self, group_kind: GroupKind, remedy: str) -> None:
        """This kind may not be read; `remedy` says what to grant."""
        if self._readable.remedy(group_kind) != remedy:
            self._readable.refused(group_kind, remedy)
            self._look_again()

    def changed(self, obj: KubeObject) -> None:
        if obj.group_kind in EVENT_KINDS:
            self._event_told(obj)
            return
        self._events.met(obj.uid)
        before = self._objects.put(obj)
        if before is not None and before.uid != obj.uid:
            self._gone(before)
            before = None
        if obj.group_kind == _NODE:
            self._node_changed(obj)
        elif obj.group_kind == _NAMESPACE:
            for key in self._jobs:
                if key.namespace == obj.name:
                    self._dirty_jobs[key] = None
        else:
            self._object_changed(obj, before)

    def removed(self, obj: KubeObject) -> None:
        """`obj` is how it was at its end."""
        before = self._objects.drop(obj.uid)
        if before is not None:
            self._gone(before, obj)

    def settle(self, at_ms: int) -> frozenset[WorkloadKey]:
        """Work out what changed until now, and tell the sink. Returns the workloads it concerned: none before
        the pods have been read, or refused."""
        if self._is_first_look and not (self._readable.is_synced(POD) or self._readable.remedy(POD)):
            return frozenset()
        for gone in self._left:
            self._leave(gone, at_ms)
        self._left.clear()
        self._departed.forget_old(at_ms)
        self._dirty_pods.update(dict.fromkeys(self._waiting_since))
        dirty, self._dirty_pods = self._dirty_pods, {}
        pods = [pod for uid in dirty if (pod := self._objects.get(uid)) is not None]
        # In the order of their making: what is told of a pod that is over is not told again when an earlier
        # holder of its seat turns up.
        for pod in sorted(pods, key=lambda pod: pod.created_ms):
            self._place(pod, at_ms)
        if self._is_first_look:
            self._is_first_look = False
            self._end_what_went_unseen(at_ms)
        concerned = frozenset(self._dirty_jobs)
        self._dirty_jobs = {}
        for workload in concerned:
            self._update(workload, at_ms)
        return concerned

    # What comes out

    @property
    def open_memberships(self) -> Mapping[PodKey, MembershipInterval]:
        """Of the pods that are there and not over."""
        return self._members.open

    @property
    def no_workload(self) -> Mapping[PodKey, str]:
        """The pods that are no part of a workload, and why."""
        return self._no_workload

    def memberships(self) -> dict[PodKey, Membership]:
        """Of all pods that exist, over or not."""
        return {placed.key: self._membership(placed) for placed in self._placed.values()}

    def workloads(self) -> dict[WorkloadKey, Workload]:
        return {key: job.record for key, job in self._jobs.items() if job.record is not None}

    def phase(self, workload: WorkloadKey) -> PhaseInterval | None:
        return self._phases.now(workload)

    def recent_phases(self, workload: WorkloadKey) -> tuple[PhaseInterval, ...]:
        return self._phases.recent(workload)

    def time_in_each(self, workload: WorkloadKey, at_ms: int) -> dict[Phase, int]:
        return self._phases.time_in_each(workload, at_ms)

    def ready_pods(self, workload: WorkloadKey) -> frozenset[PodKey]:
        """Its pods that do their work now, as of the last time it was settled."""
        job = self._jobs.get(workload)
        return frozenset(
            placed.key
            for uid, placed in (job.pods.items() if job is not None else ())
            if (known := self._as_member.get(uid)) is not None and known[1].stage.phase is Phase.RUNNING
        )

    def members(self, workload: WorkloadKey) -> Iterator[tuple[KubeObject, Membership]]:
        """Its pods, with their places in it."""
        job = self._jobs.get(workload)
        for placed in job.pods.values() if job is not None else ():
            yield placed.pod, self._membership(placed)

    def departed(self, workload: WorkloadKey) -> Sequence[Departed]:
        """Its pods that went away in the last minutes."""
        return self._departed.of(workload)

    def place_of(self, node: str) -> Place | None:
        """Zone, rack, switch and NVLink domain of a node; None for one that is not there."""
        found = self._objects.named(_NODE, "", node)
        return place_of(found, self.topology) if found is not None else None

    def has_node(self, name: str) -> bool:
        return self._objects.named(_NODE, "", name) is not None

    def nodes(self) -> Iterator[KubeObject]:
        for name in self._nodes.names():
            found = self._objects.named(_NODE, "", name)
            if found is not None:
                yield found

    @property
    def knows_nodes(self) -> bool:
        """False where they were not read yet, or may not be."""
        return self._readable.is_synced(_NODE)

    def pods(self) -> Iterator[KubeObject]:
        """Those that were placed in a workload, or found to be in none."""
        for uid in (*self._placed, *(key.uid for key in self._no_workload)):
            found = self._objects.get(uid)
            if found is not None:
                yield found

    # Marking what a change touches

    def _object_changed(self, obj: KubeObject, before: KubeObject | None) -> None:
        if obj.group_kind == POD:
            self._dirty_pods[obj.uid] = None
        for name in (object_name(obj), *owner_names(obj)):
            for uid in self._claimants.get(name, ()):
                self._dirty_pods[uid] = None
        if before is None or not _means_the_same(before, obj):
            for pod in self._objects.pods_below(obj.uid):
                self._dirty_pods[pod.uid] = None
        self._touch(obj.uid)
        if obj.group_kind == KUEUE_WORKLOAD:
            for owner in obj.owners:
                self._touch(owner.uid)

    def _event_told(self, event: KubeObject) -> None:
        kind, name, uid = about_whom(event)
        if kind == _NODE.kind and (node := self._objects.named(_NODE, "", name)) is not None:
            uid = node.uid
        self._events.note(uid, event, is_known=self._objects.get(uid) is not None)
        self._touch(uid)

    def _node_changed(self, node: KubeObject) -> None:
        for uid in self._nodes.changed(node, self._events.about(node.uid)):
            self._touch(uid)

    def _gone(self, obj: KubeObject, at_its_end: KubeObject | None = None) -> None:
        self._events.forget(obj.uid)
        if obj.group_kind == POD:
            self._left.append(at_its_end or obj)
            self._dirty_pods.pop(obj.uid, None)
        elif obj.group_kind == _NODE:
            self._nodes.removed(obj)
        for pod in self._objects.pods_below(obj.uid):
            self._dirty_pods[pod.uid] = None
        for owner in obj.owners:
            self._touch(owner.uid)
        for name in (object_name(obj), *owner_names(obj)):
            for uid in self._claimants.get(name, ()):
                self._dirty_pods[uid] = None
        for key in self._keys_of(obj):
            self._dirty_jobs[key] = None

    def _touch(self, uid: str) -> None:
        """Mark the workloads that an object is, or is in, as worth a look."""
        self._as_member.pop(uid, None)
        placed = self._placed.get(uid)
        if placed is not None:
            self._dirty_jobs[placed.placement.workload] = None
        obj = self._objects.get(uid)
        if obj is None:
            return
        if obj.group_kind == _NODE:
            self._node_changed(obj)
        elif obj.group_kind != POD:
            for key in self._keys_of(obj):
                self._dirty_jobs[key] = None

    def _keys_of(self, obj: KubeObject) -> list[WorkloadKey]:
        key = workload_above(obj, self._objects, self._readable)
        if key is None:
            return []
        operator = BY_KIND.get(GroupKind(key.group, key.kind))
        is_known = operator is not None and operator.known_without_pods
        if key in self._jobs or (is_known and not is_system(key.namespace, self._system_namespaces)):
            return [key]
        return []

    def _look_again(self) -> None:
        """What may be read has changed: doubts come or go."""
        for placed in self._placed.values():
            if placed.placement.seat.doubts or not placed.placement.is_complete:
                self._dirty_pods[placed.pod.uid] = None

    # Working it out

    def _place(self, pod: KubeObject, at_ms: int) -> None:
        key = PodKey(pod.cluster, pod.namespace, pod.name, pod.uid)
        found = place(pod, self._objects, self._readable, self._system_namespaces)
        if isinstance(found, NoWorkload):
            self._waiting_since.pop(pod.uid, None)
            self._unplace(pod.uid)
            self._members.leave(key, None, at_ms)
            self._no_workload[key] = found.why
            return
        before = self._placed.get(pod.uid)
        if before is not None and found.outlives_its_owner(before.placement):
            found = before.placement.of(pod)
        if self._must_wait(pod, key, found, at_ms):
            return
        self._no_workload.pop(key, None)
        if before is not None:
            self._forget_claim(before)
            if (before.placement.workload, before.placement.seat) != (found.workload, found.seat):
                self._attempts.release(before)
            if before.placement.workload != found.workload:
                self._unplace(pod.uid)
        self._placed[pod.uid] = placed = Placed(pod, key, found)
        self._jobs[found.workload].pods[pod.uid] = placed
        self._dirty_jobs[found.workload] = None
        if found.claimed is not None:
            self._claimants[found.claimed].add(pod.uid)
        self._nodes.put(pod.uid, _node_of(pod))
        if self._attempts.take(placed):
            for mate in self._jobs[found.workload].pods.values():
                self._keep(mate, at_ms)
        else:
            self._keep(placed, at_ms)

    def _must_wait(self, pod: KubeObject, key: PodKey, found: Placement, at_ms: int) -> bool:
        """An owner that is named and not there may be on its way, or has gone ahead of its pods."""
        if found.gone is None or pod.uid in self._placed:
            self._waiting_since.pop(pod.uid, None)
            return False
        if pod.deleted_ms is not None and key in self._members.open:
            return True  # a member from before a restart of Trilens, which it stays for what it has left
        since_ms = self._waiting_since.setdefault(pod.uid, at_ms)
        if at_ms - since_ms < PATIENCE_MS:
            return True
        del self._waiting_since[pod.uid]
        return False

    def _keep(self, placed: Placed, at_ms: int) -> None:
        """Bring the membership's interval in line."""
        pod = placed.pod
        membership = self._membership(placed)
        open_interval = self._members.open.get(placed.key)
        if is_over(pod):
            if open_interval is None and placed.key not in self._over:
                self._members.enter(membership, _node_of(pod), pod.created_ms, at_ms)
            self._members.leave(placed.key, finished_ms(pod), at_ms)
            self._over.add(placed.key)
            return
        self._members.enter(membership, _node_of(pod), pod.created_ms, at_ms)

    def _membership(self, placed: Placed) -> Membership:
        seat = placed.placement.seat
        return Membership(
            placed.key,
            placed.placement.workload,
            self._attempts.of(placed),
            seat.role,
            seat.group,
            seat.rank,
            seat.doubts,
        )

    def _leave(self, pod: KubeObject, at_ms: int) -> None:
        key = PodKey(pod.cluster, pod.namespace, pod.name, pod.uid)
        self._members.leave(key, finished_ms(pod) if is_over(pod) else None, at_ms)
        self._no_workload.pop(key, None)
        self._waiting_since.pop(pod.uid, None)
        self._over.discard(key)
        if (placed := self._placed.get(pod.uid)) is not None:
            self._departed.add(placed.placement.workload, Departed(pod, key, at_ms))
        self._unplace(pod.uid)

    def _unplace(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        self._as_member.pop(uid, None)
        if placed is None:
            return
        workload = placed.placement.workload
        self._jobs[workload].pods.pop(uid, None)
        self._dirty_jobs[workload] = None
        self._forget_claim(placed)
        self._nodes.take(uid, _node_of(placed.pod))

    def _forget_claim(self, placed: Placed) -> None:
        claimed = placed.placement.claimed
        if claimed is not None:
            self._claimants[claimed].discard(placed.pod.uid)
            if not self._claimants[claimed]:
                del self._claimants[claimed]

    def _update(self, workload: WorkloadKey, at_ms: int) -> None:
        job = self._jobs[workload]
        own = self._objects.get(workload.uid)
        if not job.pods and not self._stands_alone(workload, own):
            self._phases.end(workload, at_ms)
            self._phases.forget(workload)
            self._attempts.forget(workload)
            self._departed.forget(workload)
            del self._jobs[workload]
            return
        attempt = self._attempt(workload, job)
        view = self._view(workload, job, own, at_ms)
        now = phase_now(view)
        if now is None:
            self._phases.end(workload, at_ms)
        else:
            for moment in (*way_here(view, now, attempt), now):
                self._phases.enter(workload, attempt, moment, at_ms)
        namespace = self._objects.named(_NAMESPACE, "", workload.namespace)
        record = record_of(workload, own, job.pods.values(), attempt, job.skew_ms, self._rules, namespace)
        if record != job.record:
            job.record = record
            self._sink.workload(record)

    def _stands_alone(self, workload: WorkloadKey, own: KubeObject | None) -> bool:
        """Whether a workload without pods is one: a job in a queue, a service scaled to zero."""
        if own is None or own.group_kind == POD or self._keys_of(own) != [workload]:
            return False
        # Its pods may have turned out to work for something that only their labels tell.
        return not any(pod.uid in self._placed for pod in self._objects.pods_below(own.uid))

    def _end_what_went_unseen(self, at_ms: int) -> None:
        """Intervals from before a restart whose pods are no more."""
        for key in tuple(self._members.open):
            if self._objects.get(key.uid) is None:
                self._members.leave(key, None, at_ms)
        self._over = {key for key in self._over if self._objects.get(key.uid) is not None}

    def _attempt(self, workload: WorkloadKey, job: _Job) -> int:
        known = self._phases.now(workload)
        numbers = [self._attempts.of(placed) for placed in job.pods.values()]
        return max([*numbers, known.attempt if known is not None else 0])

    def _view(self, workload: WorkloadKey, job: _Job, own: KubeObject | None, at_ms: int) -> View:
        admissions = {
            child.uid: child
            for uid in (workload.uid, *job.pods)
            for child in self._objects.children(uid)
            if child.group_kind == KUEUE_WORKLOAD
        }
        if own is not None and own.group_kind == KUEUE_WORKLOAD:
            admissions[own.uid] = own
        present = sitting(job.pods.values())
        return View(
            BY_KIND.get(GroupKind(workload.group, workload.kind)),
            own if own is not None and own.deleted_ms is None else None,
            [self._member(pod, job, at_ms) for pod in present],
            Counter(job.pods[pod.uid].placement.seat.role for pod in present),
            tuple(admissions.values()),
            self._phases.now(workload),
        )

    def _member(self, pod: KubeObject, job: _Job, at_ms: int) -> Member:
        """Read once for each state of a pod: a job of a thousand is looked at when any of them changes."""
        before = self._as_member.get(pod.uid)
        if before is not None and before[0] is pod:
            return before[1]
        events = self._events.about(pod.uid)
        stage = stage_of(pod, events, self._nodes.is_reclaimed(_node_of(pod)))
        member = Member(pod.name, stage, milestones_of(pod, events))
        self._as_member[pod.uid] = (pod, member)
        job.skew_ms = max(job.skew_ms, clock_error_ms(pod, at_ms))
        return member


def _node_of(pod: KubeObject) -> str:
    return text(section(pod.body, "spec"), "nodeName")


def _means_the_same(one: KubeObject, other: KubeObject) -> bool:
    """Nothing changed that places pods: a Job's status does, with every pod."""
    return (
        one.labels == other.labels
        and one.annotations == other.annotations
        and one.owners == other.owners
        and one.body.get("spec") == other.body.get("spec")
    )
