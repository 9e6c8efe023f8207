"""Gathers case files from the live system, and has the trees walked over them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens import __version__
from trilens.diagnose.case_file import CaseAlert, CaseFile, CaseTarget, SubjectKind
from trilens.model.finding import FindingInterval
from trilens.serve.access.seen_trouble import seen_incidents
from trilens.serve.access.sight import WHOLE
from trilens.serve.cases.about import About, Objects, Probed
from trilens.serve.cases.outputs import ask_outputs, untold_outputs
from trilens.serve.cases.series import Places, ask_series
from trilens.serve.cases.wish import INCIDENT
from trilens.serve.cases.without_secrets import without_secrets
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from trilens.collect.target import TargetStatus
    from trilens.diagnose.case_file import CaseSubject
    from trilens.model.alert import Alert
    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.model.workload import PodKey
    from trilens.serve.access.sight import Sight
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cases.about import ObjectSource
    from trilens.serve.cases.records import CaseRecords, Known
    from trilens.serve.cases.run_records import CaseRuns, KnownRuns
    from trilens.serve.cases.subjects import Meant, Subjects
    from trilens.serve.cases.wish import Wish
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.standing_faults import GpuFaults

# Whoever asks waits: what has not come by then is told as missing.
_OBJECTS_S: Final = 10.0
_GATHERED_S: Final = 15.0
_MOST_TARGETS: Final = 500
_GPU_METRICS: Final = ("dcgm", "gpu", "trilens-agent")  # what jobs that tell of GPUs are called by


class _Kept(NamedTuple):
    """What was read in one go, in a thread."""

    meant: Meant
    known: Known
    runs: KnownRuns
    case: CaseFile  # with what the store has
    executes: bool


@dataclass(frozen=True, slots=True)
class Cases:
    """`agents` is None where none is asked, `targets` and `alerts` tell of the present; `incident` is the one
    that has an id, in a thread."""

    subjects: Subjects
    records: CaseRecords
    runs: CaseRuns
    objects: ObjectSource
    queries: OwnQueries
    agents: AgentIntake | None
    targets: Callable[[], Sequence[TargetStatus]]
    alerts: Callable[[], Sequence[Alert]]
    incident: Callable[[str, QueryGuard | None], Incident | None]
    faults: GpuFaults

    def read(self, wish: Wish, guard: QueryGuard | None, sight: Sight = WHOLE) -> _Kept:
        """What the store has, in a thread. NotFound where nobody is meant, RequestError where several are."""
        if INCIDENT.fullmatch(wish.written) and (incident := self.incident(wish.written, guard)):
            for seen in seen_incidents([incident], self.records.workloads, sight, guard):
                wish = wish.of_incident(seen)
        meant = self.subjects.seen_by(sight).find(wish.written, wish.namespace, wish.to_ms, guard)
        span = Span(wish.from_ms, wish.to_ms)
        known = self.records.read(meant, span, guard)
        runs = self.runs.read(meant, known, span, guard, sight)
        told = {one.run for one in runs.runs}
        findings = self.records.findings_of(meant, known, _nodes(meant, known), told, span, guard)
        case = CaseFile(
            meant.subject,
            wish.from_ms,
            wish.to_ms,
            __version__,
            workloads=known.workloads,
            members=known.members,
            phases=known.phases,
            events=known.events,
            findings=(*findings, *self._standing(meant.subject, wish, findings, guard)),
            gpus=known.gpus,
            runs=runs.runs,
            ranks=runs.ranks,
            steps=runs.steps,
            notes=runs.notes,
            suspects=runs.suspects,
            artifacts=runs.artifacts,
            missing=(*known.missing, *runs.missing),
        )
        return _Kept(meant, known, runs, case, wish.executes)

    def _standing(
        self, node: CaseSubject, wish: Wish, told: Iterable[FindingInterval], guard: QueryGuard | None
    ) -> Iterator[FindingInterval]:
        """Of a node: what broke a GPU of it before the time of the case, and nothing shows to be mended. It
        was told once, and is no matter of whoever had the GPU."""
        if node.kind is not SubjectKind.NODE:
            return
        lasting = {(one.finding.subject.gpu, one.finding.cause) for one in told if one.ended_ms is None}
        for fault in self.faults.at(wish.to_ms, guard).values():
            where = fault.subject
            is_here = where.node == node.name and node.may_be_in(where.known_cluster)
            if is_here and fault.onset_ms < wish.from_ms and (where.gpu, fault.cause) not in lasting:
                yield FindingInterval(fault, fault.onset_ms, wish.to_ms)

    async def complete(self, kept: _Kept) -> CaseFile:
        """With what others have to be asked for. Belongs to the loop of `objects`."""
        known, case = kept.known, kept.case
        nodes = _nodes(kept.meant, known)
        about = About(
            case.subject.cluster,
            known.keys,
            known.pods,
            nodes,
            case.subject.name if case.subject.kind is SubjectKind.NODE else None,
        )
        places = Places(
            {one.uuid for one in known.gpus},
            nodes,
            {pod.name for pod in known.pods},
            {one.run for one in kept.runs.runs},
            case.subject.namespace,
            case.subject.cluster,
            known.workloads[0].key.name if known.workloads else "",
        )
        now, ranks = asyncio.get_running_loop().time(), _ranks_of_pods(kept)
        until = now + _GATHERED_S
        objects, series, told = await asyncio.gather(
            self._objects(about, now + _OBJECTS_S),
            ask_series(self.queries, places, case.from_ms, case.to_ms, until),
            ask_outputs(self.agents, known.places, ranks, until),
        )
        written = await self.objects.logs(about, objects.objects, told.untold, ranks, until)
        untold = {pod: why for pod, why in told.untold.items() if pod not in written.pods}
        probed = await self.objects.probe(about, objects.objects) if kept.executes else Probed()
        return await asyncio.to_thread(
            lambda: without_secrets(
                replace(
                    case,
                    objects=objects.objects,
                    kinds=objects.kinds,
                    series=series.series,
                    logs=(*told.logs, *written.logs),
                    targets=tuple(self._targets(case.subject, known, nodes)),
                    alerts=tuple(self._alerts(known, nodes, case)),
                    probes=probed.probes,
                    missing=(
                        *case.missing,
                        *objects.missing,
                        *series.missing,
                        *untold_outputs(untold),
                        *written.missing,
                        *probed.missing,
                    ),
                )
            )
        )

    async def _objects(self, about: About, until: float) -> Objects:
        asked = await self.objects.ask(about, until)
        others = await asyncio.to_thread(self.objects.neighbours, about, asked.objects)
        objects, missing = (*asked.objects, *others.objects), (*asked.missing, *others.missing)
        return Objects(objects, missing, (*asked.kinds, *others.kinds))

    def _targets(self, subject: CaseSubject, known: Known, nodes: Collection[str]) -> Iterable[CaseTarget]:
        """Those of its pods and nodes, and those that should tell of its GPUs and are down."""
        pods = {(pod.namespace, pod.name) for pod in known.pods}
        found = []
        for one in self.targets():
            labels = one.labels
            host = labels.get("instance", "").rpartition(":")[0]
            named = {labels.get(name) for name in ("node", "kubernetes_node", "Hostname")} | {host}
            is_own = (labels.get("namespace"), labels.get("pod")) in pods or not named.isdisjoint(nodes)
            tells_of_gpus = any(word in one.job.lower() for word in _GPU_METRICS)
            if subject.may_be_in(labels.get("cluster")) and (
                is_own or (tells_of_gpus and one.health != "up")
            ):
                found.append(_target(one))
        return found[:_MOST_TARGETS]

    def _alerts(self, known: Known, nodes: Collection[str], case: CaseFile) -> Iterable[CaseAlert]:
        workloads = {(key.namespace, key.name) for key in known.keys}
        pods = {(pod.namespace, pod.name) for pod in known.pods}
        uuids, runs = {one.uuid for one in known.gpus}, {one.run for one in case.runs}
        for one in self.alerts():
            labels = dict(one.labels)
            namespace = labels.get("namespace", "")
            if case.subject.may_be_in(labels.get("cluster")) and (
                (namespace, labels.get("workload", "")) in workloads
                or (namespace, labels.get("pod", "")) in pods
                or labels.get("UUID") in uuids
                or labels.get("run") in runs
                or (labels.get("node") in nodes and "workload" not in labels)
            ):
                yield CaseAlert(labels, dict(one.annotations), str(one.state), one.active_ms)


def _nodes(meant: Meant, known: Known) -> frozenset[str]:
    return known.nodes | {meant.subject.name} if meant.subject.kind is SubjectKind.NODE else known.nodes


def _ranks_of_pods(kept: _Kept) -> Mapping[PodKey, int]:
    """Of pods that are one rank each: torchrun puts eight into one, whose output is nobody's alone."""
    by_uid: defaultdict[str, set[int]] = defaultdict(set)
    for process in kept.runs.ranks:
        if process.pod_uid:
            by_uid[process.pod_uid].add(process.rank)
    for seat in kept.known.gpus:
        if seat.pod is not None and seat.rank is not None:
            by_uid[seat.pod.uid].add(seat.rank)
    return {pod: min(ranks) for pod in kept.known.pods if len(ranks := by_uid.get(pod.uid, set())) == 1}


def _target(one: TargetStatus) -> CaseTarget:
    scraped = round(one.last_scrape_s * 1000) if one.last_scrape_s is not None else None
    is_up = None if scraped is None else one.health == "up"
    return CaseTarget(
        one.job, one.labels.get("instance", one.scrape_url), one.labels, is_up, one.last_error, scraped
    )
