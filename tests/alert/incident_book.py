"""A small cluster, what is told of it, and a book of the incidents that come of that."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING

from trilens.alert.incidents.incidents import Incidents
from trilens.alert.incidents.told import told_by_alert, told_by_finding
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.detect.scene import JobView, NodeView, Place, PodView
from trilens.model.alert import Alert, AlertState
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.labels import make_labels
from trilens.model.life import Phase
from trilens.model.workload import GpuUuid, PodKey, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.alert.incidents.told import Told
    from trilens.model.incident import Incident, MomentKind

T0 = 1_790_000_000_000
MINUTE = 60_000
TRAIN = WorkloadKey("prod", "ml", "kubeflow.org", "PyTorchJob", "train", "uid-1")
OTHER = WorkloadKey("prod", "ml", "batch", "Job", "other", "uid-2")
NODES = [
    NodeView("prod", "n1", True, rack="r1"),
    NodeView("prod", "n2", True, rack="r1", nvlink_domain="d1"),
    NodeView("prod", "n3", True, rack="r2"),
]


def job(workload: WorkloadKey, *nodes: str) -> JobView:
    pods = [
        PodView(PodKey("prod", "ml", f"{workload.name}-{number}", ""), node, "Running")
        for number, node in enumerate(nodes)
    ]
    return JobView(workload, "vision", 0, Phase.RUNNING, T0, False, pods=pods)


def gpu(node: str, workload: WorkloadKey | None = None) -> Place:
    return Place(GpuUuid(f"GPU-{node}"), "", "prod", node, "0", "H100", workload, None, 0)


# `train` is on n1 and n2, `other` on n2 and n3.
WHERE = Whereabouts(
    NODES,
    [job(TRAIN, "n1", "n2"), job(OTHER, "n2", "n3")],
    [gpu("n1", TRAIN), gpu("n2", TRAIN), gpu("n3", OTHER)],
)


def finding(
    kind: FindingKind,
    at_s: float,
    workload: WorkloadKey | None = None,
    node: str | None = None,
    *,
    cause: str = "",
    severity: Severity = Severity.CRITICAL,
    figures: Mapping[str, float] | None = None,
    ended_s: float | None = None,
    seen_s: float | None = None,
) -> Told:
    onset_ms = T0 + round(at_s * 1000)
    text = f"{kind.value} {cause} of {workload.name if workload else node}"
    subject = Subject(workload, node=node, gpu=GpuUuid(f"GPU-{node}") if node else None)
    code = f"D0{list(FindingKind).index(kind) + 1:02d}"
    what = Finding(code, kind, subject, severity, cause, onset_ms, text, "do", figures=figures or {})
    seen_ms = T0 + round((seen_s if seen_s is not None else at_s + 10) * 1000)
    ended_ms = T0 + round(ended_s * 1000) if ended_s is not None else None
    return told_by_finding(FindingInterval(what, onset_ms + 10_000, seen_ms, ended_ms), WHERE)


def alert(
    name: str,
    at_s: float,
    *,
    lasts_s: float = 600,
    ended_s: float | None = None,
    value: float = 1.0,
    where: Whereabouts | None = None,
    **labels: str,
) -> Told:
    at_ms = T0 + round(at_s * 1000)
    told = make_labels({"alertname": name, "severity": "warning", **labels})
    notes = make_labels({"summary": f"{name} of {labels.get('workload') or labels.get('node')}"})
    ended_ms = T0 + round(ended_s * 1000) if ended_s is not None else None
    state = AlertState.FIRING if ended_s is None else AlertState.RESOLVED
    until_ms = at_ms + round(lasts_s * 1000)
    one = Alert(told, notes, state, value, at_ms, at_ms, ended_ms, valid_until_ms=until_ms)
    return told_by_alert(one, where or WHERE)


class Costs:
    """Everything costs 36 an hour: a cent a second."""

    currency = "USD"

    def __init__(self, *known: WorkloadKey) -> None:
        self._known = known
        self.per_hour = Decimal(36)

    def of(self, workload: WorkloadKey) -> Decimal | None:
        return self.per_hour if workload in self._known else None


class Book:
    """Incidents, and the latest of each that it has told."""

    def __init__(self, costs: Costs | None = None) -> None:
        numbers = count(1)
        self.incidents = Incidents(costs, make_id=lambda _: f"i{next(numbers)}")
        self.told: dict[str, Incident] = {}

    def take(self, *told: Told, at_s: float) -> list[Incident]:
        """Those that are told of now."""
        self.incidents.take(told, T0 + round(at_s * 1000))
        return self._news()

    def settle(self, at_s: float) -> list[Incident]:
        self.incidents.settle(T0 + round(at_s * 1000))
        return self._news()

    def _news(self) -> list[Incident]:
        news = self.incidents.news()
        self.told |= {one.id: one for one in self.incidents.touched()}
        return news

    @property
    def open(self) -> list[Incident]:
        return self.incidents.open()


def names(incident: Incident) -> list[str]:
    return [one.name for one in incident.symptoms]


def kinds(incident: Incident) -> list[MomentKind]:
    return [one.kind for one in incident.timeline]


THROTTLED = finding(FindingKind.THROTTLING, 0, TRAIN, "n2", severity=Severity.WARNING)
STRAGGLER = finding(FindingKind.STRAGGLER, 5, TRAIN, "n2", figures={"slowdown": 1.25})
SLOW = alert("TrainingSlow", 300, namespace="ml", workload="train", kind="PyTorchJob")


def over(told: Told, at_s: float) -> Told:
    return replace(told, symptom=replace(told.symptom, ended_ms=T0 + round(at_s * 1000)))
