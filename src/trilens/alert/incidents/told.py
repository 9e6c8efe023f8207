"""Symptoms as they come in: alerts, findings and events, with all that they can be put together by."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trilens.alert.incidents.causes import (
    OF_NAMESPACES,
    PLACED,
    WIDE,
    Trouble,
    trouble_of_alert,
    trouble_of_finding,
    trouble_of_xid,
)
from trilens.alert.incidents.whereabouts import Domain
from trilens.model.alert import AlertState
from trilens.model.event import EventKind
from trilens.model.finding import Severity, Subject
from trilens.model.incident import Symptom, SymptomKind
from trilens.model.labels import make_labels
from trilens.model.run import RunId
from trilens.model.workload import GpuUuid, PodKey, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.alert.incidents.whereabouts import Whereabouts
    from trilens.detect.scene import Place
    from trilens.model.alert import Alert
    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval

_LONGEST_MS: Final = 400 * 86_400_000  # a finding that old is not kept
FINDING_LASTS_MS: Final = 120_000  # it is told every 5 s while it lasts

_NONE: Final[dict[str, str]] = {}
# "none" is what others give an alert of nothing wrong, such as the Watchdog of kube-prometheus-stack.
_SEVERITIES: Final = {**{severity.value: severity for severity in Severity}, "none": Severity.INFO}
_ASKED: Final[Mapping[str, Severity]] = {
    "node-out": Severity.CRITICAL,
    "gpu-reset": Severity.CRITICAL,
}


@dataclass(frozen=True, slots=True)
class Told:
    """A symptom at one telling. What it hits is worked out then, and does not become less later."""

    symptom: Symptom
    trouble: Trouble
    detected_ms: int
    valid_until_ms: int  # it is over then, unless it is told again before
    may_open: bool = True  # an incident, and keep it open; else it only joins one
    slowdown: float | None = None  # how many times longer everything takes
    node: tuple[str, str] | None = None  # cluster and name
    hit: frozenset[WorkloadKey] = frozenset()  # the workloads that suffer from it
    losing: frozenset[WorkloadKey] = frozenset()  # those of them that suffer as a whole
    # Of faults of a place: those of them that came there later than it began, or may have, and when.
    since_ms: Mapping[WorkloadKey, int] = field(default_factory=dict)
    is_known_place: bool = False  # who was there was known, and be it nobody
    namespace: str = ""
    service: str = ""  # that stands where a workload does: what is scraped, and in no pod that is known
    domains: frozenset[Domain] = frozenset()
    handles: frozenset[str] = field(default=frozenset())  # what it has in common with others

    @property
    def key(self) -> tuple[SymptomKind, str]:
        return self.symptom.kind, self.symptom.key

    @property
    def is_over(self) -> bool:
        return self.symptom.ended_ms is not None


def told_by_alert(alert: Alert, where: Whereabouts) -> Told:
    labels = dict(alert.labels)
    notes = dict(alert.annotations)
    name = labels.get("alertname", "")
    trouble = trouble_of_alert(labels)
    onset_ms = _onset_ms(alert, labels)
    symptom = Symptom(
        SymptomKind.ALERT,
        _digest(alert.rule_file, alert.rule_group, alert.labels),
        name,
        _subject_of(labels, onset_ms, where),
        severity_of(labels.get("severity", "")),
        onset_ms,
        notes.get("summary") or notes.get("description") or _plain(name, labels),
        notes.get("action") or notes.get("runbook") or notes.get("runbook_url") or "",
        alert.labels,
        alert.resolved_ms if alert.state is AlertState.RESOLVED else None,
    )
    detected_ms = alert.fired_ms if alert.fired_ms is not None else alert.active_ms
    told = Told(symptom, trouble, detected_ms, alert.valid_until_ms, _may_open(symptom))
    return _placed(told, where, labels)


def told_by_finding(interval: FindingInterval, where: Whereabouts) -> Told:
    finding = interval.finding
    trouble = trouble_of_finding(finding.kind, finding.cause)
    labels = {"code": finding.code, "finding": finding.kind.value, "cause": finding.cause}
    symptom = Symptom(
        SymptomKind.FINDING,
        interval.key.id,
        finding.code,
        _completed(finding.subject, finding.onset_ms, where),
        finding.severity,
        finding.onset_ms,
        finding.text,
        finding.action,
        make_labels(labels),
        interval.ended_ms,
    )
    told = Told(
        symptom,
        trouble,
        interval.detected_ms,
        interval.seen_ms + FINDING_LASTS_MS,
        _may_open(symptom),
        slowdown=finding.figures.get("slowdown"),
    )
    return _placed(told, where)


def told_by_event(event: EventRecord, where: Whereabouts) -> Told:
    """Over as soon as it is told: what lasts of it is a finding. Told a hundred times it is one."""
    trouble, severity = _of_event(event)
    workload, pod = None, None
    for victim in event.victims:
        found = where.of_pod(event.cluster, victim.namespace, victim.name)
        if found is not None:
            workload = found[0]
            pod = PodKey(workload.cluster, victim.namespace, victim.name, victim.uid)
            break
    code = f" {event.code}" if event.code is not None else ""
    node, cluster = event.node or None, event.cluster or None
    subject = Subject(workload, rank=event.rank, pod=pod, cluster=cluster, node=node, gpu=event.uuid)
    where_it_was = (event.cluster, event.node, event.uuid)
    symptom = Symptom(
        SymptomKind.EVENT,
        # What the pods of one workload say alike is one.
        _digest(event.kind, event.code, where_it_was, workload or event.victims, event.title),
        f"{event.kind.value}{code}",
        _completed(subject, event.t_ms, where),
        severity,
        event.t_ms,
        _text_of(event),
        "",
        ended_ms=event.t_ms,
    )
    return _placed(Told(symptom, trouble, event.t_ms, event.t_ms, _may_open(symptom)), where)


def _text_of(event: EventRecord) -> str:
    """What happened, to which pod, and in whose words; nothing of it twice."""
    text, title = event.text, event.title or ""
    if event.kind is EventKind.WARNING and event.victims:
        victim = event.victims[0]
        title = f"{title or 'a warning'} of {victim.namespace}/{victim.name}"
    plain, meaning = (one.strip(" .").casefold() for one in (text, title))
    if not plain or plain in meaning:
        return title
    return text if meaning in plain else f"{title}: {text}"


def told_again(symptom: Symptom, detected_ms: int, valid_until_ms: int, where: Whereabouts) -> Told:
    """One that was read back from disk."""
    labels = dict(symptom.labels)
    match symptom.kind:
        case SymptomKind.ALERT:
            trouble = trouble_of_alert(labels)
        case SymptomKind.FINDING:
            trouble = trouble_of_finding(labels.get("finding", ""), labels.get("cause", ""))
        case SymptomKind.EVENT:
            name, _, code = symptom.name.partition(" ")
            trouble = _trouble_of_event(name, int(code) if code.isdigit() else None)
    told = Told(symptom, trouble, detected_ms, valid_until_ms, _may_open(symptom))
    return _placed(told, where, labels)


def _may_open(symptom: Symptom) -> bool:
    """What lasts of an event is a finding; and there is nothing to do about information by itself."""
    return symptom.kind is not SymptomKind.EVENT and symptom.severity is not Severity.INFO


def _onset_ms(alert: Alert, labels: Mapping[str, str]) -> int:
    """Alerts of findings have its onset as their value: it is before a detector could see it."""
    onset_ms = round(alert.value * 1000) if math.isfinite(alert.value) else 0
    is_onset = bool(labels.get("finding")) and alert.active_ms - _LONGEST_MS < onset_ms <= alert.active_ms
    return onset_ms if is_onset else alert.active_ms


def severity_of(text: str) -> Severity:
    """What a rule calls otherwise, or not at all, is for today."""
    return _SEVERITIES.get(text, Severity.WARNING)


def workload_name(workload: WorkloadKey) -> str:
    return f"{workload.namespace}/{workload.kind}/{workload.name}"


def _of_event(event: EventRecord) -> tuple[Trouble, Severity]:
    severity = _ASKED.get(event.asks or "", Severity.WARNING)
    return _trouble_of_event(event.kind.value, event.code), severity


def _trouble_of_event(kind: str, code: int | None) -> Trouble:
    match kind:
        case EventKind.XID:
            return trouble_of_xid(code if code is not None else -1)
        case EventKind.SXID | EventKind.NVLINK:
            return Trouble.FABRIC
        case _:
            return Trouble.PLACEMENT


def _subject_of(labels: Mapping[str, str], onset_ms: int, where: Whereabouts) -> Subject:
    cluster = labels.get("cluster") or None
    namespace, name = labels.get("namespace", ""), labels.get("workload", "")
    kind, pod_name = labels.get("kind", ""), labels.get("pod", "")
    workload = None
    if name:
        workload = where.workload(namespace, name, kind, cluster) or WorkloadKey(
            cluster or "", namespace, "", kind, name, ""
        )
    rank = labels.get("rank", "")
    subject = Subject(
        workload,
        labels.get("team") or None,
        RunId(labels["run"]) if labels.get("run") else None,
        int(rank) if rank.isascii() and rank.isdigit() else None,
        PodKey(cluster or "", namespace, pod_name, "") if pod_name else None,
        cluster,
        labels.get("node") or labels.get("Hostname") or labels.get("hostname") or None,
        GpuUuid(uuid) if (uuid := labels.get("UUID") or labels.get("gpu_uuid") or "") else None,
        labels.get("gpu") or None,
        None if name else labels.get("job_name") or None,
    )
    return _completed(subject, onset_ms, where)


def _completed(subject: Subject, onset_ms: int, where: Whereabouts) -> Subject:
    """With what follows from the rest of it."""
    place = where.place_of(subject.gpu, onset_ms) if subject.gpu is not None else None
    if place is not None:
        subject = _held(subject, place)
    workload, node, cluster = subject.workload, subject.node, subject.cluster
    if subject.pod is not None and (found := where.of_pod(*subject.pod[:3])):
        workload, node = workload or found[0], node or found[1] or None
    if workload is None and subject.run is not None:
        workload = where.of_run(subject.run)
    if cluster is None and node is not None:
        cluster = where.cluster_of(node)
    if cluster is None and workload is not None:
        cluster = workload.cluster
    team = subject.team or (where.team_of(workload) if workload is not None else None)
    return subject._replace(workload=workload, node=node, cluster=cluster, team=team)


def _held(subject: Subject, place: Place) -> Subject:
    """A GPU stands for who has it, unless it is known to be another's."""
    subject = subject._replace(
        cluster=subject.cluster or place.cluster or None,
        node=subject.node or place.node or None,
        gpu_number=subject.gpu_number or place.number or None,
    )
    if place.workload is None or subject.workload not in (None, place.workload):
        return subject
    return subject._replace(
        workload=place.workload,
        rank=subject.rank if subject.rank is not None else place.rank,
        pod=subject.pod or place.pod,
    )


def _placed(told: Told, where: Whereabouts, labels: Mapping[str, str] = _NONE) -> Told:
    subject = told.symptom.subject
    node = (subject.cluster or "", subject.node) if subject.node else None
    hit: set[WorkloadKey] = {subject.workload} if subject.workload is not None else set()
    is_of_all = told.trouble in PLACED and not hit and subject.gpu is None
    there = where.on_node(*node) if node is not None and told.trouble in PLACED else {}
    if told.trouble in WIDE or is_of_all:
        hit |= there.keys()
    since_ms = {one: came_ms for one, came_ms in there.items() if one in hit and came_ms is not None}
    domains = frozenset(where.domains(*node)) if node is not None else frozenset[Domain]()
    handles = {f"workload {one.namespace}/{one.name}" for one in hit}
    namespace, service = _namespace_of(subject) or labels.get("namespace", ""), ""
    if not hit and labels.get("job"):
        service = f"{labels.get('cluster', '')}/{namespace}/{labels['job']}"
        handles.add(f"service {service}")
    if told.trouble in OF_NAMESPACES and namespace:
        handles.add(f"namespace {namespace}")
    handles |= {f"{domain.kind} {domain.cluster}/{domain.name}" for domain in domains}
    if node is not None:
        handles.add(f"node {node[1]}")  # whatever its cluster: not all labels tell it
    if subject.gpu is not None:
        handles.add(f"gpu {subject.gpu}")
    if subject.run is not None:
        handles.add(f"run {subject.run}")
    return replace(
        told,
        node=node,
        hit=frozenset(hit),
        losing=frozenset(one for one in hit if where.is_one_piece(one)),
        since_ms=since_ms,
        is_known_place=node is not None and where.knows(*node),
        namespace=namespace,
        service=service,
        domains=domains,
        handles=frozenset(handles),
    )


def _namespace_of(subject: Subject) -> str:
    if subject.workload is not None:
        return subject.workload.namespace
    return subject.pod.namespace if subject.pod is not None else ""


def _plain(name: str, labels: Mapping[str, str]) -> str:
    told = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()) if key != "alertname")
    return f"{name} ({told})" if told else name


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
