"""Whom somebody asks about: a workload, a pod or a node, by what people write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.case_file import CaseSubject, SubjectKind
from trilens.model.errors import IntakeError, NotFound, RequestError
from trilens.serve.access.seen_workloads import seen_workloads
from trilens.serve.cases.wish import whole_name
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.model.life import MembershipInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.store.gpus import GpuRecords
    from trilens.store.workloads import WorkloadHistory

_FORMS: Final = "write NAME, NAMESPACE/NAME, KIND/NAME, pod/NAME, node/NAME or CLUSTER/NAMESPACE/KIND/NAME"
_SHOWN: Final = 20
_FOREVER_MS: Final = 1 << 62
_POD, _NODE = "pod", "node"


class PodPlace(NamedTuple):
    """A pod that is there now; its node is "" before it has one."""

    pod: PodKey
    node: str


@dataclass(frozen=True, slots=True)
class Meant:
    """Who is meant, and what is known of the workload: None of a node, and of a pod that is in none."""

    subject: CaseSubject
    history: WorkloadHistory | None = None
    member: MembershipInterval | None = None  # of a pod: its latest
    alone: PodPlace | None = None  # of a pod that is in no workload: a static one, or a DaemonSet's

    @property
    def pod(self) -> PodKey | None:
        """Where it is one."""
        if self.alone is not None:
            return self.alone.pod
        return self.member.membership.pod if self.member is not None else None

    @property
    def is_gone(self) -> bool:
        return self.history is not None and _last_ms(self) < _FOREVER_MS

    @property
    def written(self) -> str:
        """The whole name, which is never ambiguous."""
        subject = self.subject
        if subject.kind is SubjectKind.NODE:
            return (
                f"{subject.cluster}/{_NODE}/{subject.name}" if subject.cluster else f"{_NODE}/{subject.name}"
            )
        if subject.kind is SubjectKind.POD or self.history is None:
            return f"{subject.cluster}/{subject.namespace}/{_POD}/{subject.name}"
        return whole_name(self.history.record.key)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A name taken apart; what was not written is None."""

    name: str
    cluster: str | None = None
    namespace: str | None = None
    kind: str | None = None
    either: str | None = None  # of two parts the first: a namespace or a kind


def _every_one(_cluster: str) -> bool:
    return True


def _no_pods(_name: str) -> Iterable[PodPlace]:
    return ()


class Subjects:
    """`nodes` are those of the watched clusters now, each with its cluster; `pods` those of a name. Either
    raises IntakeError."""

    def __init__(
        self,
        workloads: Workloads,
        gpus: GpuRecords,
        nodes: Callable[[], Iterable[tuple[str, str]]],
        pods: Callable[[str], Iterable[PodPlace]] = _no_pods,
        shows_node: Callable[[str], bool] = _every_one,
    ) -> None:
        self._workloads = workloads
        self._gpus = gpus
        self._nodes = nodes
        self._pods = pods
        self._shows_node = shows_node

    def seen_by(self, sight: Sight) -> Subjects:
        """Of who is bound to teams: no node, which is shared, and no pod whose workload nobody knows."""
        if sight.is_whole:
            return self
        return Subjects(
            seen_workloads(self._workloads, sight),
            self._gpus,
            lambda: [one for one in self._nodes() if sight.shows_node(one[0])],
            lambda name: [one for one in self._pods(name) if sight.shows_node(one.pod.cluster)],
            sight.shows_node,
        )

    def find(self, written: str, namespace: str | None, at_ms: int, guard: QueryGuard | None) -> Meant:
        """NotFound where there is none and never was, RequestError where there are several."""
        asked = _read(written, namespace)
        found = [
            *self._workloads_named(asked, at_ms, at_ms, guard),
            *self._pods_named(asked, at_ms, at_ms, guard),
        ]
        try:
            found += [*self._nodes_named(asked, at_ms, guard), *self._pods_alone(asked, found)]
        except IntakeError:  # the clusters are busy; whom the store knows is found without them
            if not found:
                raise
        if not found:  # those that are gone: the one that went last
            gone = [
                *self._workloads_named(asked, 0, at_ms, guard),
                *self._pods_named(asked, 0, at_ms, guard),
            ]
            found = gone and [max(gone, key=_last_ms)]
        found = _without_own_pods(found)
        if not found:
            where = f" in namespace {namespace}" if namespace else ""
            raise NotFound(
                f"no workload, pod or node {written!r}{where} is known",
                hint=f"see trilens workloads, trilens incidents; of a DaemonSet, ask about a pod; {_FORMS}",
            )
        if len(found) > 1:
            names = sorted(one.written for one in found)
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise RequestError(
                f"{written!r} may be any of {', '.join(names[:_SHOWN])}{more}", hint="write one of these"
            )
        return found[0]

    def _workloads_named(
        self, asked: _Asked, from_ms: int, to_ms: int, guard: QueryGuard | None
    ) -> list[Meant]:
        if asked.kind in (_POD, _NODE):
            return []
        there = self._workloads.during(
            Span(from_ms, to_ms),
            cluster=asked.cluster,
            namespace=asked.namespace,
            name=asked.name,
            guard=guard,
        )
        keys = {one.record.key for one in there if _fits(one.record.key, asked)}
        return [self._whole(key, to_ms, guard) for key in sorted(keys)]

    def _whole(self, key: WorkloadKey, to_ms: int, guard: QueryGuard | None) -> Meant:
        history = self._workloads.whole(key, to_ms, guard)
        return Meant(CaseSubject(SubjectKind.WORKLOAD, key.cluster, key.namespace, key.name), history)

    def _pods_named(self, asked: _Asked, from_ms: int, to_ms: int, guard: QueryGuard | None) -> list[Meant]:
        if asked.kind not in (None, _POD):
            return []
        latest: dict[tuple[str, str], MembershipInterval] = {}
        for one in self._members_named(asked, Span(from_ms, to_ms), guard):  # in the order of their beginning
            pod = one.membership.pod
            if asked.cluster in (None, pod.cluster):
                latest[pod.cluster, pod.namespace] = one
        return [
            Meant(
                CaseSubject(SubjectKind.POD, cluster, namespace, asked.name),
                self._whole(member.membership.workload, to_ms, guard).history,
                member,
            )
            for (cluster, namespace), member in sorted(latest.items())
        ]

    def _pods_alone(self, asked: _Asked, known: Sequence[Meant]) -> list[Meant]:
        """Those that are in no workload: the others are known by it."""
        if asked.kind not in (None, _POD):
            return []
        namespace = asked.namespace or asked.either
        placed = {(one.subject.cluster, one.subject.namespace) for one in known if _is_pod(one)}
        return [
            Meant(CaseSubject(SubjectKind.POD, pod.cluster, pod.namespace, pod.name), alone=place)
            for place in sorted(self._pods(asked.name))
            if ((pod := place.pod).cluster, pod.namespace) not in placed
            and asked.cluster in (None, pod.cluster)
            and namespace in (None, pod.namespace)
        ]

    def _members_named(
        self, asked: _Asked, span: Span, guard: QueryGuard | None
    ) -> Sequence[MembershipInterval]:
        namespace = asked.namespace or asked.either
        if namespace is not None:
            return self._workloads.members_among([(namespace, asked.name, "")], span, guard)
        there = self._workloads.members_at(span.end_ms, guard)
        return [one for one in there if one.membership.pod.name == asked.name]

    def _nodes_named(self, asked: _Asked, at_ms: int, guard: QueryGuard | None) -> list[Meant]:
        if asked.kind not in (None, _NODE) or asked.namespace is not None or asked.either is not None:
            return []
        clusters = {cluster for cluster, node in self._nodes() if node == asked.name}
        if not clusters:
            reporting = self._gpus.gpus_at(at_ms, node=asked.name, guard=guard)
            clusters = {one.gpu.cluster for one in reporting if self._shows_node(one.gpu.cluster)}
        return [
            Meant(CaseSubject(SubjectKind.NODE, cluster, "", asked.name))
            for cluster in sorted(clusters)
            if asked.cluster in (None, cluster)
        ]


def _read(written: str, namespace: str | None) -> _Asked:
    parts = written.split("/")
    if not all(parts) or len(parts) > 4:
        raise RequestError(f"{written!r} names nothing", hint=_FORMS)
    if len(parts) == 1:
        return _Asked(parts[0], namespace=namespace)
    if len(parts) == 2:
        first = parts[0].lower()
        if first in (_POD, _NODE):
            return _Asked(parts[1], namespace=namespace if first == _POD else None, kind=first)
        return _Asked(parts[1], namespace=namespace, either=parts[0])
    kind = parts[-2].lower()
    if len(parts) == 3:  # CLUSTER/node/NAME or NAMESPACE/KIND/NAME
        if kind == _NODE:
            return _Asked(parts[2], cluster=parts[0], kind=kind)
        return _Asked(parts[2], namespace=parts[0], kind=kind)
    return _Asked(parts[3], cluster=parts[0], namespace=parts[1], kind=kind)


def _fits(key: WorkloadKey, asked: _Asked) -> bool:
    kinds = (key.kind.lower(), f"{key.kind}.{key.group}".lower())
    if asked.kind is not None and asked.kind not in kinds:
        return False
    return asked.either in (None, key.namespace) or str(asked.either).lower() in kinds


def _is_pod(meant: Meant) -> bool:
    """Also one that is a workload by itself."""
    if meant.subject.kind is SubjectKind.POD:
        return True
    return meant.history is not None and meant.history.record.key.kind == "Pod"


def _without_own_pods(found: Sequence[Meant]) -> list[Meant]:
    """A pod that is a workload by itself is that workload."""
    alone = {
        one.history.record.key.uid
        for one in found
        if one.history and one.subject.kind is SubjectKind.WORKLOAD
    }
    return [one for one in found if one.member is None or one.member.membership.workload.uid not in alone]


def _last_ms(meant: Meant) -> int:
    history = meant.history
    assert history is not None
    ends = [member.to_ms for member in history.members] + [phase.to_ms for phase in history.phases]
    return max((to_ms if to_ms is not None else _FOREVER_MS for to_ms in ends), default=0)
