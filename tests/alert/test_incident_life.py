"""An incident over time: over, back again, what it cost, through a restart."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

import pytest
from incident_book import OTHER, STRAGGLER, T0, TRAIN, Book, Costs, alert, finding, job, kinds, names, over

from trilens.alert.incidents.incidents import REOPEN_MS, SETTLE_MS
from trilens.alert.incidents.told import told_by_finding
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.model.errors import NotFound
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.incident import IncidentState, MomentKind

if TYPE_CHECKING:
    from trilens.alert.incidents.told import Told


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


def test_an_alert_of_nothing_wrong_opens_nothing() -> None:
    """Of an Alertmanager's own: what always fires so that its absence is noticed."""
    book = Book()
    book.take(alert("Watchdog", 0, lasts_s=9_000, severity="none"), at_s=10)
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


def failing(service: int, at_s: float, node: str = "n8", lasts_s: float = 600) -> Told:
    """Of a service on a node of which no workload is known."""
    where = {"node": node, "cluster": "prod", "job": f"service-{service}"}
    return alert("InferenceErrorsHigh", at_s, lasts_s=lasts_s, **where)


def many_past_the_room(book: Book) -> None:
    """An incident of n8 that was once about each of 300 services, and then about the last of them only."""
    book.take(alert("NodeNotReady", 0, lasts_s=1_000, node="n8", cluster="prod"), at_s=0)
    for service in range(300):
        book.take(failing(service, service), at_s=service)
        book.take(over(failing(service, service), service), at_s=service)


def test_what_left_to_make_room_leads_nobody_to_an_incident_that_is_forgotten() -> None:
    book = Book()
    many_past_the_room(book)
    for at_s in (1_001, 1_001 + SETTLE_MS / 1000, 9_000, 9_001):
        book.settle(at_s)
    assert book.open == []
    for service in range(300):
        book.take(failing(service, 9_010, "n9"), at_s=9_010)
    [one] = book.open
    assert (one.id, len(one.symptoms) + one.more_symptoms) == ("i2", 300)


def test_what_left_to_make_room_comes_back_by_what_stayed() -> None:
    """The node is still that of the incident, whichever of its symptoms are left."""
    book = Book()
    many_past_the_room(book)
    book.take(failing(0, 400), at_s=400)
    [one] = book.open
    assert any(dict(symptom.labels).get("job") == "service-0" for symptom in one.symptoms)


@pytest.mark.parametrize("seed", range(3))
def test_days_of_any_symptoms_leave_nothing_behind(seed: int) -> None:
    dice, book = Random(seed), Book()
    lasting: list[Told] = []
    at_s = 0.0
    for number in range(2_000):
        at_s += dice.choice((1, 1, 5))
        lasts_s, node = dice.choice((60, 600)), dice.choice(("n8", "n9"))
        if number % 100 < 2:
            one = alert("NodeNotReady", at_s, lasts_s=1_500, node=node, cluster="prod")
        else:
            one = failing(dice.randrange(500), at_s, node, lasts_s)
        book.take(one, at_s=at_s)
        lasting.append(one)
        if len(lasting) > 3:
            book.take(over(lasting.pop(dice.randrange(3)), at_s), at_s=at_s)
        if number % 700 == 699:
            at_s += 9_000
        book.settle(at_s)
    for _ in range(4):
        at_s += (SETTLE_MS + REOPEN_MS) / 1000 + 600
        book.settle(at_s)
    kept = vars(book.incidents)
    assert not any(kept[name] for name in ("_cases", "_index", "_outlasting", "_by_handle"))


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
