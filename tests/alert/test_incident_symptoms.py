"""Alerts, findings and events of one trouble are one incident, whatever comes first."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import yaml
from incident_book import NODES, T0, TRAIN, WHERE, Book, alert, finding, gpu, job, names

from trilens.alert.incidents.causes import AFTERMATH, LINKS, OF_ALERTS, Trouble, depth, follows
from trilens.alert.incidents.told import told_by_event
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.detect.scene import Place, RankView, Steps, ToldBy
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import FindingKind
from trilens.model.run import RankProcess, RunId, WriterId
from trilens.model.workload import GpuUuid


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


def test_an_event_is_of_the_pod_and_node_of_its_own_cluster() -> None:
    hit = EventRecord(
        "n1", "line", T0, EventKind.XID, 31, "page fault", None, None, None, 0, *[None] * 4,
        victims=(Victim("ml", "train-0", ""),),
    )  # fmt: skip
    for cluster, workload, at in (("", TRAIN, "prod"), ("prod", TRAIN, "prod"), ("west", None, "west")):
        subject = told_by_event(replace(hit, cluster=cluster), WHERE).symptom.subject
        assert (subject.workload, subject.cluster, subject.node) == (workload, at, "n1")
    prod, west = (told_by_event(replace(hit, cluster=one, victims=()), WHERE) for one in ("prod", "west"))
    assert prod.key != west.key


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


def test_a_quota_of_one_cluster_explains_nothing_in_another() -> None:
    """Where both say where they are: a rule may have left out the cluster."""
    book = Book()
    book.take(alert("QuotaExhausted", 0, namespace="ml", cluster="prod"), at_s=10)
    book.take(alert("QuotaExhausted", 0, namespace="ml", cluster="west"), at_s=10)
    waiting = {"namespace": "ml", "cluster": "west"}
    book.take(alert("PodPendingLong", 60, workload="serve", kind="Job", **waiting), at_s=60)
    book.take(alert("PodPendingLong", 60, pod="x-1", **waiting), at_s=60)
    assert [names(one) for one in book.open] == [
        ["QuotaExhausted"],
        ["QuotaExhausted", "PodPendingLong", "PodPendingLong"],
    ]
    assert [one.subject.cluster for one in book.open] == ["prod", "west"]


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


def test_causes_stand_above_their_effects_and_nothing_is_left_out() -> None:
    for link in LINKS:
        assert all(depth(link.cause) < depth(effect) for effect in link.effects), link
    assert all(follows(link.cause, effect) for link in AFTERMATH for effect in link.effects)
    assert follows(Trouble.HEAT, Trouble.SLOW)
    assert not follows(Trouble.SLOW, Trouble.HEAT)
