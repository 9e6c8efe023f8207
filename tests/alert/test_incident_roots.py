"""What has one cause is one incident, with its root first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from incident_book import (
    NODES,
    OTHER,
    SLOW,
    STRAGGLER,
    T0,
    THROTTLED,
    TRAIN,
    WHERE,
    Book,
    alert,
    finding,
    job,
    kinds,
    names,
    over,
)

from trilens.alert.incidents.told import told_by_finding
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.incident import IncidentState, MomentKind
from trilens.model.run import RunId

if TYPE_CHECKING:
    from trilens.alert.incidents.told import Told


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
