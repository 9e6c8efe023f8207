"""Alerts, findings and events of one cause are one incident, with its root first, over its whole life."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from importlib import resources
from itertools import count, permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml

from trilens.alert.incidents.causes import AFTERMATH, LINKS, OF_ALERTS, Trouble, depth, follows
from trilens.alert.incidents.incidents import REOPEN_MS, SETTLE_MS, Incidents
from trilens.alert.incidents.told import told_by_alert, told_by_event, told_by_finding
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.detect.scene import JobView, NodeView, Place, PodView, RankView, Steps, ToldBy
from trilens.model.alert import Alert, AlertState
from trilens.model.errors import NotFound
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.incident import IncidentState, MomentKind
from trilens.model.labels import make_labels
from trilens.model.life import Phase
from trilens.model.run import RankProcess, RunId, WriterId
from trilens.model.workload import GpuUuid, PodKey, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.alert.incidents.told import Told
    from trilens.model.incident import Incident

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


def test_a_throttled_node_a_straggler_and_a_slow_job_are_one_incident_with_the_root_first() -> None:
    book = Book()
    book.take(STRAGGLER, at_s=15)
    book.take(THROTTLED, at_s=30)
    book.take(SLOW, at_s=320)
    [one] = book.open
    assert names(one) == ["D004", "D003", "TrainingSlow"]
    assert one.title == THROTTLED.symptom.text
    assert one.workloads == ("ml/PyTorchJob/train",)
    assert one.severity is Severity.CRITICAL
    assert one.onset_ms == T0
    assert kinds(one) == [
        MomentKind.ONSET,
        MomentKind.DETECTED,
        MomentKind.JOINED,
        MomentKind.ROOT,
        MomentKind.JOINED,
    ]


def test_the_order_in_which_they_come_changes_nothing_but_the_timeline() -> None:
    book = Book()
    book.take(SLOW, STRAGGLER, THROTTLED, at_s=320)
    [one] = book.open
    assert names(one) == ["D004", "D003", "TrainingSlow"]
    assert MomentKind.ROOT not in kinds(one)


def test_a_straggler_elsewhere_is_not_the_throttled_nodes() -> None:
    book = Book()
    book.take(THROTTLED, finding(FindingKind.STRAGGLER, 5, TRAIN, "n1"), at_s=20)
    assert len(book.open) == 2


def test_a_node_that_goes_takes_all_its_workloads_along() -> None:
    book = Book()
    book.take(finding(FindingKind.CRASH, 0, OTHER, "n2", cause="killed"), at_s=10)
    book.take(finding(FindingKind.STALL, 0, TRAIN, "n1", cause="collective"), at_s=20)
    assert len(book.open) == 2
    news = book.take(alert("NodeNotReady", 50, node="n2", cluster="prod", trouble="node"), at_s=60)
    [one] = book.open
    assert names(one) == ["NodeNotReady", "D010", "D001"]
    assert set(one.workloads) == {"ml/PyTorchJob/train", "ml/Job/other"}
    [gone] = [incident for incident in news if incident.id != one.id]
    assert (gone.state, gone.merged_into) == (IncidentState.RESOLVED, one.id)


def test_what_hit_one_workload_does_not_explain_another() -> None:
    book = Book()
    book.take(finding(FindingKind.CRASH, 0, OTHER, "n2"), at_s=10)
    book.take(finding(FindingKind.STALL, 5, TRAIN), at_s=20)
    assert len(book.open) == 2


def test_a_stall_long_after_a_fault_is_over_is_another_incident() -> None:
    book = Book()
    fault = finding(FindingKind.GPU_FAULT, 0, TRAIN, "n1", cause="xid-79")
    book.take(fault, at_s=10)
    book.take(replace(fault, symptom=replace(fault.symptom, ended_ms=T0 + 600_000)), at_s=600)
    book.take(finding(FindingKind.STALL, 1_200, TRAIN), at_s=1_215)
    assert len(book.incidents.open()) == 2


def test_a_slow_gpu_and_another_that_breaks_on_one_node_are_two_incidents() -> None:
    """However long the first lasts, and whatever is told of it anew."""
    book = Book()
    book.take(THROTTLED, STRAGGLER, at_s=10)
    fault = finding(FindingKind.GPU_FAULT, 300, TRAIN, "n1", cause="xid-79")
    book.take(fault, finding(FindingKind.CRASH, 301, TRAIN, "n1", cause="exception"), at_s=310)
    later = finding(FindingKind.STRAGGLER, 250, TRAIN, "n2", cause="other")
    book.take(later, finding(FindingKind.THROTTLING, 20, TRAIN, "n2", cause="other"), at_s=320)
    assert [names(one) for one in book.open] == [["D004", "D004", "D003", "D003"], ["D009", "D010"]]


def test_of_two_that_may_be_the_root_it_is_what_explains_more_and_lasts() -> None:
    book = Book()
    fallback = finding(FindingKind.CPU_FALLBACK, 0, TRAIN, "n2")
    book.take(fallback, finding(FindingKind.STALL, 1, TRAIN), at_s=20)
    book.take(finding(FindingKind.HANG, 1, TRAIN, "n1"), at_s=30)
    assert names(book.open[0])[0] == "D005"
    book.take(over(fallback, 40), at_s=40)
    assert names(book.open[0])[0] == "D002"


def test_of_two_of_a_kind_the_one_that_names_more_is_shown_first() -> None:
    book = Book()
    lost = finding(FindingKind.GPU_FAULT, 0, None, "n9", cause="lost")
    book.take(lost, finding(FindingKind.GPU_FAULT, 5, TRAIN, "n9", cause="xid-79"), at_s=20)
    [one] = book.open
    assert one.title == "gpu-fault xid-79 of train"
    assert one.onset_ms == T0


def test_what_befell_a_job_before_it_came_to_a_broken_node_is_another_incident() -> None:
    """Its next attempt is put where GPUs are missing."""
    before = Whereabouts(NODES, [job(OTHER, "n3")], [])
    crash = finding(FindingKind.CRASH, 120, OTHER, "n3", seen_s=600)
    late = finding(FindingKind.CRASH, 300, OTHER, "n1", seen_s=600)
    on_n1 = {"cluster": "prod", "node": "n1"}
    book = Book()
    book.take(crash, alert("GpusMissing", 60, where=before, **on_n1), at_s=180)
    book.take(alert("GpusMissing", 60, where=Whereabouts(NODES, [job(OTHER, "n1")], []), **on_n1), at_s=240)
    assert [names(one) for one in book.open] == [["GpusMissing"], ["D010"]]
    # Of pods it is known when they were made, also where the alert fires only after that.
    made = [pod._replace(created_ms=T0 + 200_000) for pod in job(OTHER, "n1").pods]
    after = Whereabouts(NODES, [replace(job(OTHER, "n1"), pods=made)], [])
    book = Book()
    book.take(crash, alert("GpusMissing", 60, where=after, **on_n1), at_s=240)
    assert len(book.open) == 2
    book = Book()
    book.take(late, alert("GpusMissing", 60, where=after, **on_n1), at_s=310)
    assert [names(one) for one in book.open] == [["GpusMissing", "D010"]]


def test_a_run_that_nobody_places_does_not_hit_its_neighbours() -> None:
    subject = Subject(run=RunId("elsewhere"), cluster="prod", node="n2")
    what = Finding("D010", FindingKind.CRASH, subject, Severity.CRITICAL, "killed", T0, "gone", "do")
    book = Book()
    book.take(told_by_finding(FindingInterval(what, T0, T0), WHERE), at_s=5)
    book.take(finding(FindingKind.STALL, 1, OTHER), at_s=10)
    assert [one.workloads for one in book.open] == [(), ("ml/Job/other",)]


def test_what_begins_when_a_stall_is_over_did_not_cause_it() -> None:
    book = Book()
    stall = finding(FindingKind.STALL, 0, TRAIN)
    book.take(stall, at_s=10)
    book.take(over(stall, 30), at_s=30)
    book.take(finding(FindingKind.THROTTLING, 60, TRAIN, "n2"), at_s=70)
    assert len(book.open) == 2


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(finding(FindingKind.GPU_FAULT, 120, OTHER, "n2", cause="xid-79"), 1, id="one-rack"),
        pytest.param(finding(FindingKind.GPU_FAULT, 120, OTHER, "n3", cause="xid-79"), 2, id="another-rack"),
        pytest.param(finding(FindingKind.GPU_FAULT, 900, OTHER, "n2", cause="xid-79"), 2, id="much-later"),
        pytest.param(finding(FindingKind.GPU_FAULT, 120, OTHER, "n2", cause="xid-13"), 2, id="a-program"),
    ],
)
def test_faults_of_one_rack_within_minutes_are_one_incident(second: Told, expected: int) -> None:
    book = Book()
    book.take(finding(FindingKind.GPU_FAULT, 0, TRAIN, "n1", cause="xid-79"), at_s=10)
    book.take(second, at_s=second.symptom.onset_ms / 1000 - T0 / 1000 + 10)
    assert len(book.open) == expected
    if expected == 1:
        assert book.open[0].title.startswith("2 nodes of rack r1: ")


def test_a_watchdog_that_ends_a_hung_job_is_not_what_hung_it() -> None:
    book = Book()
    book.take(finding(FindingKind.HANG, 0, TRAIN, "n1", seen_s=600), at_s=20)
    book.take(finding(FindingKind.CRASH, 600, TRAIN, "n1", cause="exception"), at_s=610)
    [one] = book.open
    assert names(one)[0] == "D002"
    book = Book()
    book.take(finding(FindingKind.HANG, 3, TRAIN, "n1"), at_s=20)
    book.take(finding(FindingKind.CRASH, 0, TRAIN, "n2", cause="killed"), at_s=30)
    [one] = book.open
    assert names(one)[0] == "D010"


def test_an_event_says_once_what_happened_and_to_whom() -> None:
    waits = EventRecord(
        "", "e1", T0, EventKind.WARNING, None, "0/8 nodes are available", "FailedScheduling", *[None] * 7,
        victims=(Victim("ml", "train-0", "u0"),),
    )  # fmt: skip
    other = replace(waits, id="e2", victims=(Victim("ml", "train-1", "u1"),))
    lost = replace(
        waits, id="e3", kind=EventKind.XID, code=79, node="n1", uuid=GpuUuid("GPU-n1"),
        title="the GPU has fallen off the bus", text="GPU has fallen off the bus.",
    )  # fmt: skip
    book = Book()
    book.take(finding(FindingKind.GPU_FAULT, 0, TRAIN, "n1", cause="xid-79"), at_s=10)
    book.take(*(told_by_event(one, WHERE) for one in (waits, other, lost)), at_s=15)
    [one] = book.open
    assert sorted(symptom.text for symptom in one.symptoms[1:]) == [
        "FailedScheduling of ml/train-0: 0/8 nodes are available",
        "the GPU has fallen off the bus",
    ]


def test_an_event_joins_and_never_pages_alone() -> None:
    xid = EventRecord(
        "n1", "line", T0, EventKind.XID, 79, "fallen off", "off the bus", "node-out", GpuUuid("GPU-n1"), 0,
        *[None] * 4,
    )  # fmt: skip
    pod = replace(xid, id="pod", kind=EventKind.WARNING, code=None, node="", uuid=None, text="BackOff")
    pod = replace(pod, victims=(Victim("ml", "train-0", ""),), title=None)
    book = Book()
    book.take(told_by_event(xid, WHERE), told_by_event(pod, WHERE), at_s=5)
    assert book.open == []
    book.take(finding(FindingKind.GPU_FAULT, 0, TRAIN, "n1", cause="xid-79"), at_s=10)
    book.take(told_by_event(xid, WHERE), told_by_event(pod, WHERE), at_s=10)
    [one] = book.open
    assert names(one) == ["D009", "xid 79", "warning"]


def test_the_alert_of_a_finding_joins_it() -> None:
    book = Book()
    stall = finding(FindingKind.STALL, 0, TRAIN, "n1", cause="data")
    book.take(stall, at_s=10)
    told = {"finding": "stall", "cause": "data", "code": "D001", "namespace": "ml", "workload": "train"}
    book.take(alert("TrainingStallFound", 30, kind="PyTorchJob", **told), at_s=30)
    [one] = book.open
    assert names(one) == ["D001", "TrainingStallFound"]
    since = alert("TrainingStallFound", 30, kind="PyTorchJob", value=T0 / 1000 + 4, **told)
    assert since.symptom.onset_ms == T0 + 4_000
    assert alert("Mine", 30, value=T0 / 1000 + 4).symptom.onset_ms == T0 + 30_000
    assert one.title == stall.symptom.text


FALLEN = finding(FindingKind.GPU_FAULT, 0, TRAIN, "n1", cause="xid-79")
XID = alert("GpuXidNodeOut", 20, node="n1", UUID="GPU-n1", gpu="0", xid="79")
NAMELESS = alert("GpuXidNodeOut", 20, node="n1", pci_bus_id="00000000:08:00.0", xid="79")
LOST = alert("GpuLost", 75, node="n1", UUID="GPU-n1", gpu="0")
FEWER = alert("GpusMissing", 120, cluster="prod", node="n1")
HUNG = finding(FindingKind.HANG, 4, TRAIN, "n2")
STALLED = alert("TrainingStalled", 600, namespace="ml", workload="train", kind="PyTorchJob")


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=lambda order: "".join(map(str, order)))
def test_alerts_and_findings_of_one_gpu_are_one_incident_whatever_comes_first(order: tuple[int, ...]) -> None:
    told = [FALLEN, XID, HUNG, LOST]
    book = Book()
    for at_s, number in enumerate(order, 130):
        book.take(told[number], at_s=at_s)
    book.take(NAMELESS, FEWER, STALLED, at_s=600)
    [one] = book.open
    assert one.title == FALLEN.symptom.text
    assert names(one)[0] == "D009"
    assert set(names(one)) == {"D009", "GpuXidNodeOut", "GpuLost", "GpusMissing", "D002", "TrainingStalled"}


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("xid-31", "GpuXidApplication"),
        ("xid-74", "GpuXidLink"),
        ("xid-63", "GpuXidNoted"),
        ("thermal", "GpuPowerBrake"),
    ],
)
def test_an_alert_and_a_finding_of_one_gpu_are_one_though_its_holder_has_gone(cause: str, name: str) -> None:
    kind = FindingKind.THROTTLING if cause == "thermal" else FindingKind.GPU_FAULT
    for where in (WHERE, Whereabouts(NODES), Whereabouts()):
        book = Book()
        book.take(alert(name, 20, where=where, node="n1", UUID="GPU-n1"), at_s=25)
        book.take(finding(kind, 0, TRAIN, "n1", cause=cause), at_s=30)
        assert [names(one)[0] for one in book.open] == [finding(kind, 0).symptom.name]


def test_a_gpu_stands_for_who_has_it_and_had_it() -> None:
    book = Book()
    hot = alert("GpuHot", 0, node="n1", UUID="GPU-n1", gpu="0")
    subject = hot.symptom.subject
    assert (subject.workload, subject.team, subject.rank, subject.cluster) == (TRAIN, "vision", 0, "prod")
    book.take(hot, at_s=5)
    book.take(alert("GpuHot", 0, where=Whereabouts(NODES), node="n1", UUID="GPU-n1", gpu="0"), at_s=65)
    [one] = book.open
    assert (one.subject.workload, one.subject.team) == (TRAIN, "vision")


def test_what_becomes_known_later_makes_one_incident_of_two() -> None:
    """At first nobody knows whose GPU it is: the hang of its job is an incident by itself."""
    book = Book()
    nowhere = Whereabouts()
    book.take(alert("GpuLost", 0, where=nowhere, node="n1", UUID="GPU-n1"), at_s=5)
    book.take(HUNG, at_s=10)
    assert len(book.open) == 2
    book.take(alert("GpuLost", 0, node="n1", UUID="GPU-n1"), at_s=65)
    [one] = book.open
    assert names(one) == ["GpuLost", "D002"]
    [other] = [told for told in book.told.values() if told.id != one.id]
    assert other.merged_into == one.id


@pytest.mark.parametrize("left", [[], [gpu("n1")]], ids=["gone", "free"])
def test_a_lost_gpu_stands_for_who_had_it_when_it_went(left: list[Place]) -> None:
    """Its pod is gone, and nobody has it, before anybody knows that it is lost."""
    held = Whereabouts(NODES, [job(TRAIN, "n1", "n2")], [gpu("n1", TRAIN)], now_ms=T0 - 5_000)
    free = Whereabouts(NODES, [], left, now_ms=T0 + 60_000, before=held)
    labels = {"node": "n1", "UUID": "GPU-n1"}
    book = Book()
    book.take(finding(FindingKind.CRASH, 5, TRAIN), at_s=20)
    book.take(alert("GpuLost", 10, where=free, **labels), at_s=70)
    [one] = book.open
    assert names(one) == ["GpuLost", "D010"]
    assert (one.subject.workload, one.workloads) == (TRAIN, ("ml/PyTorchJob/train",))
    process = RankProcess(RunId("r"), 1, WriterId("w"), T0 - 60_000, gpus=("GPU-n1",), heard_ms=T0 + 4_000)
    ranks = [RankView(1, ToldBy.RECORDS, Steps(*[np.empty(0)] * 7), T0, process)]
    told = Whereabouts(NODES, [replace(job(TRAIN, "n2"), ranks=ranks)], [gpu("n1")])  # nobody saw its pod
    by_process = alert("GpuLost", 10, where=told, **labels).symptom.subject
    assert (by_process.workload, by_process.rank) == (TRAIN, 1)
    later = alert("GpuLost", 600, where=free, **labels)
    assert later.symptom.subject.workload is None, "it was free when it went"


def test_rules_that_nobody_told_us_about_stand_alone_unless_they_say_what_they_are() -> None:
    book = Book()
    labels = {"namespace": "ml", "workload": "train", "kind": "PyTorchJob"}
    book.take(finding(FindingKind.STALL, 0, TRAIN), alert("MineA", 0, **labels), at_s=10)
    book.take(alert("MineB", 0, **labels), at_s=10)
    assert len(book.open) == 3
    book.take(alert("MineC", 0, trouble="slow", **labels), at_s=20)
    assert len(book.open) == 3


def test_a_quota_explains_the_pods_of_its_namespace_that_wait() -> None:
    book = Book()
    book.take(alert("QuotaExhausted", 0, namespace="ml", resource="nvidia.com/gpu"), at_s=10)
    book.take(alert("QuotaExhausted", 30, namespace="ml", resource="memory"), at_s=40)
    book.take(alert("PodPendingLong", 60, namespace="ml", workload="train", kind="PyTorchJob"), at_s=60)
    book.take(alert("PodPendingLong", 60, namespace="web", pod="x-1"), at_s=60)
    assert [names(one) for one in book.open] == [
        ["QuotaExhausted", "QuotaExhausted", "PodPendingLong"],
        ["PodPendingLong"],
    ]


def test_a_node_explains_what_is_on_it_and_of_no_workload() -> None:
    book = Book()
    book.take(alert("NodeNotReady", 0, node="n9", cluster="prod"), at_s=10)
    book.take(alert("GpuUtilizationLow", 60, node="n9", cluster="prod", UUID="GPU-n9"), at_s=60)
    book.take(alert("GpuUtilizationLow", 60, node="n8", cluster="prod", UUID="GPU-n8"), at_s=60)
    assert [len(one.symptoms) for one in book.open] == [2, 1]


def test_a_service_outside_of_kubernetes_is_known_by_its_job() -> None:
    book = Book()
    book.take(alert("InferenceP99High", 0, job="vllm"), alert("SloBurningFast", 60, job="vllm"), at_s=60)
    book.take(alert("InferenceP99High", 0, job="triton"), at_s=60)
    assert [len(one.symptoms) for one in book.open] == [2, 1]


def test_every_alert_of_the_pack_has_its_place_in_the_table() -> None:
    files = Path(str(resources.files("trilens.rules"))).glob("*.yml")
    groups = [group for file in files for group in yaml.safe_load(file.read_text("utf-8"))["groups"]]
    pack = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    told = [name for named in OF_ALERTS.values() for name in named]
    assert len(told) == len(set(told))
    assert {name for name in pack if not name.startswith("Finding")} == {
        name for name in told if not name.startswith("Slo")
    }


def test_the_docs_have_what_a_rule_may_say_of_itself() -> None:
    written = (Path(__file__).parents[2] / "docs" / "incidents.md").read_text("utf-8")
    told = set(Trouble) - {Trouble.MONEY, Trouble.OTHER}
    assert [trouble for trouble in told if f"`{trouble.value}`" not in written.replace("trouble: ", "")] == []


def over(told: Told, at_s: float) -> Told:
    return replace(told, symptom=replace(told.symptom, ended_ms=T0 + round(at_s * 1000)))


def test_it_resolves_when_all_is_over_for_minutes_and_goes_on_when_it_comes_back() -> None:
    book = Book()
    stall = finding(FindingKind.STALL, 0, TRAIN, seen_s=100)
    slow = alert("TrainingSlow", 60, namespace="ml", workload="train", kind="PyTorchJob")
    book.take(stall, slow, at_s=70)
    book.take(over(stall, 100), at_s=100)
    [one] = book.open
    assert kinds(one)[-1] is MomentKind.LEFT
    book.settle(100 + SETTLE_MS / 1000 + 60)
    assert book.open, "the alert still fires"
    book.take(over(slow, 300), at_s=300)
    book.settle(300 + SETTLE_MS / 1000 - 1)
    assert book.open
    [resolved] = book.settle(300 + SETTLE_MS / 1000)
    assert (resolved.state, resolved.resolved_ms) == (IncidentState.RESOLVED, T0 + 300_000)
    assert resolved.timeline[-1].kind is MomentKind.RESOLVED
    [again] = book.take(finding(FindingKind.STALL, 600, TRAIN, seen_s=615), at_s=615)
    assert (again.id, again.state, again.resolved_ms) == (one.id, IncidentState.OPEN, None)
    book.settle(2_000)
    book.settle(2_000 + SETTLE_MS / 1000 + REOPEN_MS / 1000)
    book.settle(2_001 + SETTLE_MS / 1000 + REOPEN_MS / 1000)
    [other] = book.take(finding(FindingKind.STALL, 9_000, TRAIN, seen_s=9_015), at_s=9_015)
    assert other.id != one.id


def test_what_nobody_tells_of_any_more_is_over() -> None:
    """The rule is gone, or the workload with its series."""
    book = Book()
    book.take(alert("TrainingSlow", 0, lasts_s=240, namespace="ml", workload="train"), at_s=0)
    book.settle(239)
    assert book.open[0].symptoms[0].ended_ms is None
    book.settle(241)
    assert book.open[0].symptoms[0].ended_ms == T0 + 240_000
    book.settle(241 + SETTLE_MS / 1000)
    assert book.open == []


def test_information_opens_nothing_joins_and_keeps_nothing_open() -> None:
    """A chat model takes longer than half a second for an answer when all is well."""
    labels = {"namespace": "ml", "workload": "train", "kind": "PyTorchJob"}
    slow = alert("InferenceP95High", 0, lasts_s=9_000, severity="info", **labels)
    plateau = finding(FindingKind.PLATEAU, 0, OTHER, severity=Severity.INFO, seen_s=9_000)
    book = Book()
    book.take(slow, plateau, at_s=10)
    assert book.open == []
    failing = alert("InferenceErrorsHigh", 60, severity="critical", **labels)
    book.take(slow, failing, at_s=70)
    [one] = book.open
    assert (names(one), one.title) == (["InferenceErrorsHigh", "InferenceP95High"], failing.symptom.text)
    book.take(slow, over(failing, 120), at_s=120)
    book.settle(301)
    assert book.open == []
    book.take(over(slow, 310), at_s=310)
    book.take(alert("InferenceP95High", 400, lasts_s=9_500, severity="info", **labels), at_s=400)
    assert book.open == []


def test_telling_the_same_again_is_no_news() -> None:
    book = Book()
    assert len(book.take(STRAGGLER, at_s=10)) == 1
    assert book.take(STRAGGLER, at_s=15) == []
    later = replace(STRAGGLER.symptom, text="slower still")
    assert book.take(replace(STRAGGLER, symptom=later), at_s=20) == []
    assert book.told["i1"].title == "slower still"


def test_a_weakness_does_not_keep_a_fault_open_and_does_not_page_again() -> None:
    book = Book()
    fault = finding(FindingKind.GPU_FAULT, 0, None, "n1", cause="xid-64")
    weak = finding(FindingKind.GPU_FAULT, 20, None, "n1", cause="row-remap-pending", seen_s=90_000)
    book.take(fault, weak, at_s=30)
    assert len(book.open) == 1
    book.take(over(fault, 600), at_s=600)
    book.settle(600 + SETTLE_MS / 1000)
    assert book.open == []
    for at_s in (800, 2_000, 4_000):
        book.take(weak, at_s=at_s)
        book.settle(at_s)
    assert book.open == []
    book.take(over(weak, 4_100), at_s=4_100)
    book.settle(4_105)
    book.take(finding(FindingKind.GPU_FAULT, 9_000, None, "n1", cause="row-remap-pending"), at_s=9_010)
    assert len(book.open) == 1, "another one, after that was over"


def test_money_counts_standstill_in_full_and_slowness_in_part_each_moment_once() -> None:
    book = Book(Costs(TRAIN))
    slowdown = {"slowdown": 1.25}
    book.take(finding(FindingKind.STRAGGLER, 0, TRAIN, "n2", figures=slowdown, seen_s=200), at_s=10)
    book.settle(100)
    assert (book.open[0].lost_quanta, book.open[0].currency) == (200_000_000, "USD")  # a fifth of 100 s
    stall = finding(FindingKind.STALL, 100, TRAIN, "n2", seen_s=200)
    book.take(stall, at_s=110)
    book.take(over(stall, 150), at_s=150)
    book.settle(200)
    [one] = book.open
    assert one.lost_quanta == 200_000_000 + 500_000_000 + 100_000_000
    book = Book(Costs())
    book.take(stall, at_s=110)
    book.settle(120)
    assert book.open[0].lost_quanta is None


def test_money_that_is_lost_does_not_become_less() -> None:
    costs = Costs(TRAIN, OTHER)
    book = Book(costs)
    slow = finding(FindingKind.STRAGGLER, 0, TRAIN, "n2", figures={"slowdown": 2.0}, seen_s=900)
    book.take(slow, at_s=10)
    book.settle(100)
    costs.per_hour = Decimal(18)  # half of its GPUs are gone
    book.take(replace(slow, slowdown=1.25), at_s=105)
    book.settle(200)
    book.settle(200)
    [one] = book.open
    assert one.lost_quanta == 500_000_000 + 100_000_000
    book.take(replace(slow, slowdown=4.0), at_s=205)
    book.settle(300)
    assert book.open[0].lost_quanta == 600_000_000 + 375_000_000, "nor more for what was before"
    after = Book(costs)
    after.incidents.restore([one], T0 + 210_000)
    after.take(replace(slow, slowdown=1.25), at_s=215)
    after.settle(300)
    assert after.open[0].lost_quanta == 500_000_000 + 200_000_000
    # Where two turn out to be one, a moment of one workload counts once, and nothing is forgotten.
    nowhere = {"where": Whereabouts(), "node": "n1", "UUID": "GPU-n1"}
    book = Book(Costs(TRAIN))
    book.take(alert("GpuLost", 0, **nowhere), finding(FindingKind.HANG, 0, TRAIN, "n2", seen_s=900), at_s=5)
    book.settle(100)
    assert len(book.open) == 2
    book.take(alert("GpuLost", 0, node="n1", UUID="GPU-n1"), at_s=110)
    book.settle(200)
    assert [one.lost_quanta for one in book.open] == [2_000_000_000]


def test_of_a_server_nobody_knows_what_a_crash_of_one_replica_costs() -> None:
    server = Whereabouts(jobs=[replace(job(TRAIN, "n1", "n2"), serves=True)])
    what = Finding("D010", FindingKind.CRASH, Subject(TRAIN), Severity.WARNING, "", T0, "gone", "do")
    book = Book(Costs(TRAIN))
    book.take(told_by_finding(FindingInterval(what, T0, T0 + 60_000), server), at_s=5)
    book.settle(60)
    assert book.open[0].lost_quanta is None


def test_acknowledged_and_notified_are_in_the_timeline() -> None:
    book = Book()
    book.take(STRAGGLER, at_s=10)
    book.incidents.notified("i1", "slack", T0 + 12_000)
    book.incidents.notified("i1", "mail", T0 + 13_000)
    book.incidents.acknowledge("i1", "ada", T0 + 20_000)
    [one] = book.open
    assert one.notified_ms == T0 + 12_000
    assert (one.acknowledged_ms, one.acknowledged_by) == (T0 + 20_000, "ada")
    assert kinds(one)[2:] == [MomentKind.NOTIFIED, MomentKind.NOTIFIED, MomentKind.ACKNOWLEDGED]
    with pytest.raises(NotFound, match="no incident 'i9' is open"):
        book.incidents.acknowledge("i9", "ada", T0)


def test_after_a_restart_it_goes_on_where_it_was() -> None:
    before = Book(Costs(TRAIN))
    hot = finding(FindingKind.THROTTLING, 0, TRAIN, "n2", seen_s=3_600)
    stall = finding(FindingKind.STALL, 5, TRAIN, "n2", seen_s=3_600)
    before.take(hot, stall, at_s=15)
    before.settle(3_600)
    kept = before.told["i1"]
    after = Book(Costs())
    after.incidents.restore([kept], T0 + 3_600_000)
    assert after.take(stall, hot, at_s=3_605) == []
    [one] = after.open
    assert (one.id, one.symptoms, one.timeline) == (kept.id, kept.symptoms, kept.timeline)
    after.settle(3_610)
    assert after.open[0].lost_quanta == kept.lost_quanta
    after.take(alert("TrainingSlow", 3_500, namespace="ml", workload="train"), at_s=3_620)
    assert len(after.open) == 1


def test_one_that_was_resolved_before_a_restart_opens_again_after_it() -> None:
    before = Book()
    labels = {"namespace": "ml", "workload": "train"}
    before.take(alert("TrainingSlow", 0, **labels), at_s=0)
    before.take(alert("TrainingSlow", 0, ended_s=60, **labels), at_s=60)
    before.settle(300)
    after = Book()
    after.incidents.restore([before.told["i1"]], T0 + 310_000)
    assert after.open == []
    [again] = after.take(alert("TrainingSlow", 320, lasts_s=240, **labels), at_s=320)
    assert (again.id, again.resolved_ms) == ("i1", None)


def test_symptoms_that_were_over_long_ago_leave_an_incident_that_lasts() -> None:
    book = Book()
    book.take(alert("NodeNotReady", 0, lasts_s=90_000, node="n1", cluster="prod"), at_s=0)
    for number in range(300):
        one = alert("ScrapeLost", number, node="n1", cluster="prod", instance=str(number))
        book.take(one, at_s=number)
        book.take(over(one, number), at_s=number)
    [one] = book.open
    assert len(one.symptoms) <= 202
    assert one.onset_ms == T0
    assert one.symptoms[0].name == "NodeNotReady"
    assert dict(one.symptoms[-1].labels)["instance"] == "299"


def test_a_storm_is_one_incident_of_bounded_size() -> None:
    book = Book()
    book.take(alert("NodeNotReady", 0, node="n1", cluster="prod", trouble="node"), at_s=0)
    storm = [
        alert("Mine", 10, node="n1", cluster="prod", trouble="telemetry", device=str(number))
        for number in range(300)
    ]
    book.take(*storm, at_s=15)
    [one] = book.open
    assert (len(one.symptoms), one.more_symptoms) == (200, 101)
    assert len(one.timeline) <= 302
    assert one.timeline[1].kind is MomentKind.DETECTED


def test_causes_stand_above_their_effects_and_nothing_is_left_out() -> None:
    for link in LINKS:
        assert all(depth(link.cause) < depth(effect) for effect in link.effects), link
    assert all(follows(link.cause, effect) for link in AFTERMATH for effect in link.effects)
    assert follows(Trouble.HEAT, Trouble.SLOW)
    assert not follows(Trouble.SLOW, Trouble.HEAT)
