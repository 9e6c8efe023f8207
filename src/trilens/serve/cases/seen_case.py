"""A case as a team sees it: its own workload with what belongs to that, and of others nothing.

Cut before anybody judges it: a verdict can name only what is left. What it lacks for that is said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.case_file import LogKind
from trilens.model.verdict import Missing
from trilens.resolve.events import about_whom
from trilens.resolve.reading import items, section, text
from trilens.serve.cases import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.diagnose.case_file import CaseAlert, CaseFile, CaseSeries
    from trilens.model.event import EventRecord
    from trilens.model.finding import Subject
    from trilens.model.kubernetes import KubeObject
    from trilens.serve.access.sight import Sight

_CUT: Final = Missing(
    "what others have on the same machines and queues, and how the cluster is set up: not this team's to see",
    "ask who sees the whole fleet",
)
_OF_ITS_NAMESPACE: Final = frozenset(
    {kinds.QUOTA, kinds.VOLUME_CLAIM, kinds.LOCAL_QUEUE, kinds.QUEUED, *kinds.POD_GROUPS}
)
_MADE_OF_JOBS: Final = frozenset({kinds.QUEUED, *kinds.POD_GROUPS})


def seen_case(case: CaseFile, sight: Sight) -> CaseFile:
    """The case is about something that is seen, and so are its runs. Who is bound to clusters alone sees all
    that is in them."""
    if sight.clusters is not None:
        case = _in_clusters(case, sight)
    if sight.teams is None:
        return case
    own = _Own(case)
    return replace(
        case,
        events=tuple(cut for one in case.events if (cut := own.of_event(one)) is not None),
        findings=tuple(one for one in case.findings if own.has(one.finding.subject)),
        objects=tuple(one for one in case.objects if own.has_object(one)),
        kinds=tuple(one for one in case.kinds if one == kinds.RUNTIME_CLASS),
        series={
            figure: tuple(one for one in told if own.has_series(one)) for figure, told in case.series.items()
        },
        logs=tuple(one for one in case.logs if one.kind is not LogKind.KERNEL and one.pod in own.pods),
        targets=tuple(one for one in case.targets if own.names_pod(one.labels)),
        alerts=tuple(one for one in case.alerts if own.has_alert(one)),
        missing=(*case.missing, _CUT),
    )


def _in_clusters(case: CaseFile, sight: Sight) -> CaseFile:
    """What names no cluster is left where it can only be about the case: nodes are called alike in many."""
    gpus = frozenset(one.uuid for one in case.gpus)
    uids = frozenset(one.membership.pod.uid for one in case.members)

    def shows(labels: Mapping[str, str]) -> bool:
        return sight.shows_cluster(labels.get("cluster"))

    def has(event: EventRecord) -> bool:
        return event.uuid in gpus or any(one.uid in uids for one in event.victims)

    def is_clear(subject: Subject) -> bool:
        told = (subject.workload, subject.run, subject.pod, subject.gpu)
        return any(one is not None for one in told) or sight.shows_cluster(subject.cluster)

    return replace(
        case,
        events=tuple(one for one in case.events if sight.shows_cluster(one.cluster) or has(one)),
        findings=tuple(one for one in case.findings if is_clear(one.finding.subject)),
        series={
            figure: tuple(one for one in told if shows(one.labels) or _gpu(one.labels) in gpus)
            for figure, told in case.series.items()
        },
        targets=tuple(one for one in case.targets if shows(one.labels)),
        alerts=tuple(one for one in case.alerts if shows(one.labels)),
    )


class _Own:
    def __init__(self, case: CaseFile) -> None:
        self.pods = frozenset(one.membership.pod for one in case.members)
        self._subject = case.subject
        self._keys = frozenset(one.key for one in case.workloads)
        self._uids = {one.uid for one in self.pods} | {one.uid for one in self._keys}
        self._gpus = frozenset(one.uuid for one in case.gpus)
        self._runs = frozenset(one.run for one in case.runs)
        self._nodes = frozenset(one.node for one in case.members)
        self._names = {(one.namespace, one.name) for one in self.pods}
        self._namespaces = {pod.namespace for pod in self.pods} | {key.namespace for key in self._keys}
        self._told_uids = self._uids | {one.uid for one in case.objects if self._stands_between(one)}
        self._told_names = {(one.namespace, kinds.POD.kind, one.name) for one in self.pods}
        self._told_names |= {(key.namespace, key.kind, key.name) for key in self._keys}
        self._claims = frozenset(self._claims_of(case.objects))

    def has(self, subject: Subject) -> bool:
        if subject.workload is not None:
            return subject.workload in self._keys
        return subject.pod in self.pods or subject.run in self._runs or subject.gpu in self._gpus

    def of_event(self, event: EventRecord) -> EventRecord | None:
        """Of a GPU that is its own, or of its pods; without others that it hit, and processes of nobody."""
        if not event.victims:
            if event.uuid not in self._gpus:
                return None
            return event if event.pid is None else _without_process(event)
        hit = tuple(
            one for one in event.victims if (one.uid in self._uids if one.uid else one[:2] in self._names)
        )
        if len(hit) == len(event.victims) or not hit:
            return event if hit else None
        return _without_process(replace(event, victims=hit))

    def has_object(self, one: KubeObject) -> bool:
        kind = one.group_kind
        if kind == kinds.NODE:
            return one.name in self._nodes
        if kind == kinds.RUNTIME_CLASS:
            return True
        if one.namespace not in self._namespaces:
            return False
        if kind == kinds.EVENT:
            return self._is_about_own(one)
        return kind in _OF_ITS_NAMESPACE or one.uid in self._uids or self._owns(one)

    def _is_about_own(self, event: KubeObject) -> bool:
        """Not by a part of a name: another's job in the namespace may be called nearly as the own one is."""
        about = about_whom(event)
        if about.kind == kinds.VOLUME_CLAIM.kind and (event.namespace, about.name) in self._claims:
            return True
        if about.uid:
            return about.uid in self._told_uids
        return (event.namespace, about.kind, about.name) in self._told_names

    def _claims_of(self, objects: Iterable[KubeObject]) -> Iterable[tuple[str, str]]:
        for pod in objects:
            if pod.group_kind == kinds.POD and pod.uid in self._uids:
                for volume in items(section(pod.body, "spec"), "volumes"):
                    yield pod.namespace, text(section(volume, "persistentVolumeClaim"), "claimName")

    def _stands_between(self, one: KubeObject) -> bool:
        is_near = one.namespace in self._namespaces
        return is_near and (one.group_kind in _MADE_OF_JOBS or self._owns(one))

    def _owns(self, one: KubeObject) -> bool:
        """What stands between the workload and its pods."""
        names = {(key.namespace, key.name) for key in self._keys}
        is_owner = any((one.namespace, owner.name) in names for owner in one.owners)
        return one.group_kind != kinds.POD and is_owner

    def has_series(self, one: CaseSeries) -> bool:
        named = one.labels
        if named.get("pod"):
            return self.names_pod(named)
        if _gpu(named):
            return _gpu(named) in self._gpus
        return not named.get("workload") or self._names_workload(named)

    def has_alert(self, one: CaseAlert) -> bool:
        named = one.labels
        return self.names_pod(named) or self._names_workload(named) or named.get("run") in self._runs

    def names_pod(self, labels: Mapping[str, str]) -> bool:
        named = (labels.get("namespace", ""), labels.get("pod", ""))
        return named in self._names and self._subject.may_be_in(labels.get("cluster"))

    def _names_workload(self, labels: Mapping[str, str]) -> bool:
        wanted = (labels.get("namespace", ""), labels.get("workload", ""))
        is_named = any((key.namespace, key.name) == wanted for key in self._keys)
        return is_named and self._subject.may_be_in(labels.get("cluster"))


def _without_process(event: EventRecord) -> EventRecord:
    return replace(event, text=event.title or "", pid=None, process=None, rank=None)


def _gpu(labels: Mapping[str, str]) -> str | None:
    return labels.get("UUID") or labels.get("gpu_uuid")
