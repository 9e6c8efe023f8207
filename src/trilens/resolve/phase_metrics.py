"""The life of workloads as metrics: what each is at, and how long it was at what."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.life import MembershipInterval, Phase, PhaseInterval
    from trilens.model.workload import PodKey, Workload, WorkloadKey

PHASE = "trilens_workload_phase"
PHASE_SECONDS = "trilens_workload_phase_seconds_total"


class PhaseSample(NamedTuple):
    metric: str
    labels: dict[str, str]
    value: float


class Resolver(Protocol):
    """Whoever makes workloads of something: of a cluster's objects, or of processes on machines."""

    @property
    def open_memberships(self) -> Mapping[PodKey, MembershipInterval]: ...

    def workloads(self) -> Mapping[WorkloadKey, Workload]: ...

    def phase(self, workload: WorkloadKey) -> PhaseInterval | None: ...

    def time_in_each(self, workload: WorkloadKey, at_ms: int) -> Mapping[Phase, int]: ...


def phase_metrics(resolver: Resolver, at_ms: int) -> Iterator[PhaseSample]:
    """Unique per workload and phase: of two with one name the newer one tells."""
    newest: dict[tuple[str, ...], Workload] = {}
    for record in resolver.workloads().values():
        known = newest.get(record.key[:-1])
        if known is None or _age(known) < _age(record):
            newest[record.key[:-1]] = record
    for (cluster, namespace, group, kind, name), record in newest.items():
        labels = {
            "cluster": cluster,
            "namespace": namespace,
            "group": group,
            "kind": kind,
            "workload": name,
            "team": record.team or "",
            "queue": record.queue or "",
        }
        now = resolver.phase(record.key)
        if now is not None:
            yield PhaseSample(PHASE, {**labels, "phase": now.phase.value}, 1.0)
        for phase, spent_ms in resolver.time_in_each(record.key, at_ms).items():
            yield PhaseSample(PHASE_SECONDS, {**labels, "phase": phase.value}, spent_ms / 1000)


def _age(record: Workload) -> tuple[int, str]:
    return record.created_ms or 0, record.key.uid
