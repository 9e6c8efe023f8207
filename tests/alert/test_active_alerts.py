"""The life of alerts, as Prometheus has it: on a real store, pass by pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rules_at_work import groups
from trilens.alert.active import ActiveAlerts
from trilens.alert.manager import RuleManager
from trilens.alert.rule import AlertingRule
from trilens.alert.templates.expand import AlertTemplate, External
from trilens.model.errors import StoreReadOnly
from trilens.model.labels import LabelFrame, Symbols, make_labels
from trilens.model.series import STALE_NAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from rules_at_work import Fleet
    from trilens.model.alert import Alert

STEP = 60_000
MINUTE = 60_000


def group(rule: str, extra: str = "", name: str = "g") -> str:
    return f"groups:\n- name: {name}\n{extra}  rules:\n  - {rule}\n"


class Watched:
    """A manager, and what it has told of alerts."""

    def __init__(self, fleet: Fleet, text: str) -> None:
        self.fleet = fleet
        self.now_ms = fleet.now_ms
        self.told: list[Alert] = []
        self.manager = RuleManager(
            groups(text),
            fleet.store,
            fleet.store,
            external=External("http://here:1", (("site", "east"),)),
            on_alerts=self.told.extend,
            now_ms=lambda: self.now_ms,
        )

    def run(self, at_ms: int) -> list[Alert]:
        """What was told at this moment."""
        self.told.clear()
        self.now_ms = at_ms
        self.fleet.run(self.manager, at_ms)
        return list(self.told)

    @property
    def rule(self) -> Any:
        return self.manager.states()[0].rules[0]

    def states(self) -> list[str]:
        return [str(alert.state) for alert in self.rule.active.alerts()]


def shown(fleet: Fleet, alert: str, at_ms: int, metric: str = "ALERTS") -> dict[str, float]:
    """By state, or by the metric's own name."""
    found = fleet.shows(f'{metric}{{alertname="{alert}"}}', at_ms)
    return {dict(labels).get("alertstate", metric): value for labels, value in found.items()}


def test_pending_then_firing_then_resolved_and_told_for_a_quarter_of_an_hour(fleet: Fleet) -> None:
    at = fleet.now_ms
    text = (
        "{alert: Life, expr: life_hot > 80, for: 2m, labels: {severity: warning},"
        " annotations: {s: 'at {{ $value }}'}}"
    )
    watched = Watched(fleet, group(text))
    fleet.put("life_hot", at, 90, gpu="0")
    assert watched.run(at) == []
    assert watched.states() == ["pending"]
    assert shown(fleet, "Life", at) == {"pending": 1}
    assert shown(fleet, "Life", at, "ALERTS_FOR_STATE") == {"ALERTS_FOR_STATE": at // 1000}

    fleet.put("life_hot", at + STEP, 91, gpu="0")
    assert watched.run(at + STEP) == []
    (fired,) = watched.run(at + 2 * STEP)
    assert fired.labels == make_labels({"alertname": "Life", "gpu": "0", "severity": "warning"})
    assert (fired.annotations, fired.value, str(fired.state)) == ((("s", "at 91"),), 91, "firing")
    assert (fired.active_ms, fired.fired_ms) == (at, at + 2 * STEP)
    assert fired.valid_until_ms == at + 2 * STEP + 4 * MINUTE
    assert (fired.rule_file, fired.rule_group) == ("rules.yml", "g")
    assert fired.generator_url == "http://here:1/graph?g0.expr=life_hot+%3E+80&g0.tab=1"
    assert shown(fleet, "Life", at + 2 * STEP) == {"firing": 1}  # the pending one has ended

    assert watched.run(at + 2 * STEP + STEP // 2) == []  # it was told less than a minute ago
    assert [str(alert.state) for alert in watched.run(at + 3 * STEP)] == ["firing"]

    fleet.put("life_hot", at + 5 * STEP, 20, gpu="0")
    (resolved,) = watched.run(at + 5 * STEP)
    assert (str(resolved.state), resolved.resolved_ms) == ("resolved", at + 5 * STEP)
    assert shown(fleet, "Life", at + 5 * STEP) == {}
    assert watched.states() == []
    told = [watched.run(at + k * STEP) for k in range(6, 30)]
    assert [str(one.state) for alerts in told for one in alerts] == ["resolved"] * 15
    assert len(watched.rule.active) == 0


def test_a_pending_alert_that_is_gone_is_forgotten_and_starts_anew(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Short, expr: short_hot > 80, for: 2m}"))
    for k, value in enumerate((90, 20, 90, 90)):
        fleet.put("short_hot", at + k * STEP, value)
        assert watched.run(at + k * STEP) == []
    assert [alert.active_ms for alert in watched.rule.active.alerts()] == [at + 2 * STEP]
    assert [str(alert.state) for alert in watched.run(at + 4 * STEP)] == ["firing"]


def test_without_for_it_fires_at_once_and_a_resolved_one_begins_again(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Again, expr: again_hot > 80}"))
    states = []
    for k, value in enumerate((90, 20, 90)):
        fleet.put("again_hot", at + k * STEP, value)
        states.append([(str(one.state), one.active_ms) for one in watched.run(at + k * STEP)])
    assert states == [[("firing", at)], [("resolved", at)], [("firing", at + 2 * STEP)]]


def test_an_alert_for_what_is_gone_resolves(fleet: Fleet) -> None:
    """Whether somebody tells of the end of its series, or it just is not told of any more."""
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Gone, expr: gone_hot > 80}"))
    for workload in ("ended", "silent"):
        fleet.put("gone_hot", at, 90, workload=workload)
    assert len(watched.run(at)) == 2
    fleet.put("gone_hot", at + STEP, STALE_NAN, workload="ended")
    over = {}
    for minutes in range(1, 8):
        for alert in watched.run(at + minutes * MINUTE):
            if str(alert.state) == "resolved":
                over.setdefault(dict(alert.labels)["workload"], minutes)
    assert over == {"ended": 1, "silent": 5}  # five minutes are how long a sample is shown


def test_keep_firing_for(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Kept, expr: kept_hot > 80, keep_firing_for: 3m}"))
    states = []
    for k, value in enumerate((90, 20, 20, 90, 20, 20, 20, 20)):
        fleet.put("kept_hot", at + k * STEP, value)
        watched.run(at + k * STEP)
        states.append("".join(watched.states()))
    assert states == ["firing"] * 7 + [""]
    fleet.put("kept_hot", at + 8 * STEP, 90)
    watched.run(at + 8 * STEP)
    fleet.put("kept_hot", at + 9 * STEP, 20)
    watched.run(at + 9 * STEP)
    (kept,) = watched.rule.active.alerts()
    assert (kept.keep_firing_since_ms, kept.value) == (at + 9 * STEP, 90)


def test_more_than_the_limit_is_an_error_and_nothing_fires(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Many, expr: many_hot > 80}", "  limit: 2\n"))
    for gpu in "012":
        fleet.put("many_hot", at, 90, gpu=gpu)
    assert watched.run(at) == []
    assert watched.rule.last_error == "exceeded limit of 2 with 3 alerts"
    assert watched.states() == []
    fleet.put("many_hot", at + STEP, 20, gpu="2")
    assert len(watched.run(at + STEP)) == 2
    assert watched.rule.health == "ok"


def test_two_with_the_same_labels_are_an_error_and_the_others_stay(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Same, expr: same_hot > 80, labels: {gpu: all}}"))
    fleet.put("same_hot", at, 90, gpu="0")
    watched.run(at)
    fleet.put("same_hot", at + STEP, 90, gpu="1")
    assert watched.run(at + STEP) == []
    assert watched.rule.last_error == (
        "vector contains metrics with the same labelset after applying alert labels"
    )
    assert watched.states() == ["firing"]


def test_query_offset_moves_what_is_seen_and_written_but_not_since_when(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Offset, expr: offset_hot > 80}", "  query_offset: 2m\n"))
    fleet.put("offset_hot", at, 90)
    assert watched.run(at + STEP) == []  # it looks at a moment before the sample
    (fired,) = watched.run(at + 2 * STEP)
    assert fired.active_ms == at + 2 * STEP
    assert shown(fleet, "Offset", at) == {"firing": 1}


def test_labels_by_templates_may_be_empty_and_an_error_fires_all_the_same(fleet: Fleet) -> None:
    at = fleet.now_ms
    text = (
        "{alert: Told, expr: told_hot > 80,"
        " labels: {severity: '{{ if gt $value 95.0 }}critical{{ else }}warning{{ end }}',"
        " gpu: '', site: '{{ $externalLabels.site }}'},"
        " annotations: {bad: '{{ gt $value 5 }}',"
        " others: '{{ query \"told_hot\" | len }} of {{ $labels.gpu }}'}}"
    )
    watched = Watched(fleet, group(text))
    fleet.put("told_hot", at, 90, gpu="7")
    (fired,) = watched.run(at)
    assert dict(fired.labels) == {"alertname": "Told", "severity": "warning", "site": "east"}
    told = dict(fired.annotations)
    assert told["others"] == "1 of 7"
    assert told["bad"].startswith("<error expanding template: error executing template __alert_Told: ")
    assert told["bad"].endswith("error calling gt: incompatible types for comparison>")
    fleet.put("told_hot", at + STEP, 99, gpu="7")  # other labels: another alert
    states = {dict(one.labels)["severity"]: str(one.state) for one in watched.run(at + STEP)}
    assert states == {"critical": "firing", "warning": "resolved"}


def test_annotations_follow_the_value_and_the_query(fleet: Fleet) -> None:
    at = fleet.now_ms
    text = (
        "{alert: Text, expr: text_hot > 80, annotations: {v: '{{ $value }}', l: '{{ $labels.gpu }}',"
        " q: '{{ query \"text_hot\" | first | value }}'}}"
    )
    watched = Watched(fleet, group(text))
    for k, value in enumerate((90, 91, 91)):
        fleet.put("text_hot", at + k * STEP, value, gpu="0")
        watched.run(at + k * STEP)
        (alert,) = watched.rule.active.alerts()
        assert dict(alert.annotations) == {"v": str(value), "q": str(value), "l": "0"}


def test_a_rule_sees_the_alerts_of_one_before_it(fleet: Fleet) -> None:
    """Though another one has asked for them before they were there."""
    of_cause = 'ALERTS{alertname="Cause", alertstate="firing"}'
    text = (
        "groups:\n- name: g\n  rules:\n"
        f"  - {{alert: Early, expr: '{of_cause}'}}\n"
        "  - {alert: Cause, expr: vector(1)}\n"
        f"  - {{alert: Effect, expr: '{of_cause}'}}\n"
    )
    told = {dict(alert.labels)["alertname"] for alert in Watched(fleet, text).run(fleet.now_ms)}
    assert told == {"Cause", "Effect"}


def test_a_reload_keeps_what_is_active_unless_the_rule_is_gone(fleet: Fleet) -> None:
    at = fleet.now_ms
    watched = Watched(fleet, group("{alert: Stays, expr: stays_hot > 80, for: 2m}"))
    fleet.put("stays_hot", at, 90)
    watched.run(at)
    watched.manager.reload(
        groups(group("{alert: Stays, expr: stays_hot > 85, for: 1m, annotations: {s: new}}"))
    )
    fleet.put("stays_hot", at + STEP, 90)
    (fired,) = watched.run(at + STEP)
    assert (fired.active_ms, fired.annotations) == (at, (("s", "new"),))
    watched.told.clear()
    watched.now_ms += 1
    watched.manager.reload(groups(group("{alert: Other, expr: stays_hot > 80}")))
    assert [(dict(one.labels)["alertname"], str(one.state)) for one in watched.told] == [
        ("Stays", "resolved")
    ]
    assert fleet.shows('ALERTS{alertname="Stays"}', at + 2 * STEP) == {}


def test_an_error_of_who_is_told_ends_nothing(fleet: Fleet) -> None:
    def refuse(alerts: Sequence[Alert]) -> None:
        raise RuntimeError("no")

    manager = RuleManager(
        groups(group("{alert: Deaf, expr: vector(1)}")), fleet.store, fleet.store, on_alerts=refuse
    )
    fleet.run(manager, fleet.now_ms)
    assert manager.states()[0].rules[0].health == "ok"


def test_a_full_disk_silences_nobody(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(fleet, group("{alert: Full, expr: vector(1)}"))

    def refuse(*_: object) -> None:
        raise StoreReadOnly("the disk is full")

    with monkeypatch.context() as disk:
        disk.setattr(fleet.store, "append", refuse)
        assert [str(alert.state) for alert in watched.run(fleet.now_ms)] == ["firing"]
    assert "the disk is full" in watched.rule.last_error


def test_a_clock_that_is_set_back_keeps_no_end_from_being_told(fleet: Fleet) -> None:
    (found,) = groups(group("{alert: Back, expr: hot}"))
    rule = found.rules[0]
    assert isinstance(rule, AlertingRule)
    active = ActiveAlerts(rule, found, External())
    hour = 60 * MINUTE
    active.step(many(1), np.ones(1), hour)
    assert [str(one.state) for one in active.to_tell(hour)] == ["firing"]
    active.step(many(1), np.ones(1), 0)
    assert [str(one.state) for one in active.to_tell(0)] == ["firing"]  # else it would be taken for over
    active.step(many(0), np.ones(0), STEP // 2)
    assert [str(one.state) for one in active.to_tell(STEP // 2)] == ["resolved"]


def many(count: int) -> LabelFrame:
    return LabelFrame.of(Symbols(), [{"__name__": "hot", "gpu": str(k)} for k in range(count)])


def test_what_depends_on_labels_alone_is_expanded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "{alert: Cheap, expr: hot, labels: {l: '{{ $labels.gpu }}'},"
        " annotations: {s: 'GPU {{ $labels.gpu }}', v: '{{ $value }}'}}"
    )
    (found,) = groups(group(text))
    rule = found.rules[0]
    assert isinstance(rule, AlertingRule)
    active = ActiveAlerts(rule, found, External())
    expansions: list[str] = []
    real = AlertTemplate.expand

    def noticed(template: AlertTemplate, *arguments: Any) -> str:
        expansions.append(template.text)
        return real(template, *arguments)

    monkeypatch.setattr(AlertTemplate, "expand", noticed)
    active.step(many(50), np.full(50, 1.0), 0)
    assert len(expansions) == 150
    expansions.clear()
    active.step(many(50), np.full(50, 1.0), STEP)
    assert expansions == []
    active.step(many(50), np.full(50, 2.0), 2 * STEP)
    assert set(expansions) == {"{{ $value }}"}
    frame, _ = active.series()
    assert active.series()[0] is frame  # the same alerts in the same states: nothing to code anew
