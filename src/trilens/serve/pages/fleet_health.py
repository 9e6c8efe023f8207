"""Who is ill, of the workloads, nodes and GPUs of a page, by the findings and incidents that last."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from trilens.alert.incidents.causes import Trouble, trouble_of_finding
from trilens.alert.incidents.told import workload_name
from trilens.model.finding import FindingInterval, FindingKind, Severity
from trilens.serve.pages.incident_names import clusters_of, may_be_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.finding import Finding
    from trilens.model.incident import Incident
    from trilens.model.workload import GpuUuid, WorkloadKey

_Key = TypeVar("_Key")


class Ill(NamedTuple):
    """The gravest that is known; `incident` is None where only a detector says so."""

    severity: Severity
    text: str
    since_ms: int
    incident: str | None


class WorkloadHealth:
    def __init__(self, findings: Iterable[FindingInterval], incidents: Iterable[Incident]) -> None:
        self._by_key: dict[WorkloadKey, Ill] = {}
        self._by_run: dict[str, Ill] = {}
        # A name is all that an incident has of most that suffer; beside it the clusters where it is.
        self._by_name: defaultdict[str, dict[frozenset[str], Ill]] = defaultdict(dict)
        for incident in incidents:
            ill = Ill(incident.severity, incident.title, incident.onset_ms, incident.id)
            subjects = (incident.subject, *(one.subject for one in incident.symptoms if one.ended_ms is None))
            for subject in subjects:
                if subject.workload is not None:
                    _keep(self._by_key, subject.workload, ill)
                elif subject.run is not None:
                    _keep(self._by_run, subject.run, ill)
            clusters = clusters_of(incident)
            for name in incident.workloads:
                _keep(self._by_name[name], clusters, ill)
        for interval in findings:
            finding = interval.finding
            ill = Ill(finding.severity, finding.text, finding.onset_ms, None)
            if finding.subject.workload is not None:
                _keep(self._by_key, finding.subject.workload, ill)
            elif finding.subject.run is not None:
                _keep(self._by_run, finding.subject.run, ill)

    def of(self, workload: WorkloadKey | None, run: str | None = None) -> Ill | None:
        found: list[Ill | None] = [self._by_run.get(run) if run is not None else None]
        if workload is not None:
            found.append(self._by_key.get(workload))
            named = self._by_name.get(workload_name(workload), {}) if self._by_name else {}
            found += [ill for clusters, ill in named.items() if may_be_in(workload.cluster, clusters)]
        known = [one for one in found if one is not None]
        return min(known, key=_gravity, default=None)


def _gravity(ill: Ill) -> tuple[int, bool]:
    """An incident says more than a finding that is as grave."""
    return ill.severity.gravity, ill.incident is None


def _keep(known: dict[_Key, Ill], key: _Key, ill: Ill) -> None:
    before = known.get(key)
    if before is None or _gravity(ill) < _gravity(before):
        known[key] = ill


# They name the GPU or node where a job stands or fell, which says nothing of its hardware.
_OF_JOBS: Final = frozenset(
    {
        FindingKind.STALL,
        FindingKind.HANG,
        FindingKind.CRASH,
        FindingKind.CPU_FALLBACK,
        FindingKind.PLATEAU,
        FindingKind.DIVERGENCE,
    }
)


def is_of_job(finding: Finding) -> bool:
    """Also an Xid by which a GPU tells of a program's own fault."""
    trouble = trouble_of_finding(finding.kind, finding.cause)
    return finding.kind in _OF_JOBS or trouble is Trouble.PROGRAM


def _is_broken(finding: Finding) -> bool:
    return finding.kind is FindingKind.GPU_FAULT and finding.severity is Severity.CRITICAL


def _as_worth_a_look(interval: FindingInterval) -> FindingInterval:
    finding = replace(interval.finding, severity=Severity.INFO)
    return replace(interval, finding=finding, opened_as=interval.key)


class GpuFindings:
    """Which finding each GPU and each node has, the gravest first: as places in `shown`. `faults` are those
    that nothing shows to be mended; a job's trouble makes its GPU worth a look, and no more."""

    def __init__(self, findings: Iterable[FindingInterval], faults: Mapping[GpuUuid, Finding]) -> None:
        named = [one for one in findings if one.finding.subject.gpu or one.finding.subject.node]
        about = [_as_worth_a_look(one) if is_of_job(one.finding) else one for one in named]
        broken = {one.finding.subject.gpu for one in about if _is_broken(one.finding)}
        about += [
            FindingInterval(one, one.onset_ms, one.onset_ms)
            for uuid, one in faults.items()
            if uuid not in broken
        ]
        self.shown: Sequence[FindingInterval] = sorted(
            about, key=lambda one: (one.finding.severity.gravity, one.finding.onset_ms)
        )
        self.of_gpu: dict[str, int] = {}
        self.of_node: dict[tuple[str, str], int] = {}
        for place, interval in enumerate(self.shown):
            subject = interval.finding.subject
            if subject.gpu is not None:
                self.of_gpu.setdefault(subject.gpu, place)
            elif subject.node is not None:
                self.of_node.setdefault((subject.known_cluster, subject.node), place)

    def of(self, cluster: str, node: str, uuid: str | None) -> int | None:
        of_gpu, on_node = self.of_gpu.get(uuid) if uuid is not None else None, self.on(cluster, node)
        if of_gpu is None or on_node is None:
            return on_node if of_gpu is None else of_gpu
        return min(of_gpu, on_node)

    def on(self, cluster: str, node: str) -> int | None:
        """Of the node as a whole; one that names no cluster counts for a node of that name."""
        return self.of_node.get((cluster, node), self.of_node.get(("", node)))
