"""Rules and alerts: which there are, and how they fare, on /api/v1/rules, /api/v1/alerts and /metrics."""

from __future__ import annotations

import asyncio
import glob
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.alert.go_time import stamp
from trilens.alert.rule import AlertingRule, RecordingRule
from trilens.alert.rule_file import RuleFile, parse_rules, read_rules
from trilens.alert.slo.file import read_slo_file
from trilens.alert.slo.rules import slo_rules
from trilens.model.alert import AlertState
from trilens.model.errors import ConfigError, RequestError
from trilens.promql.patterns import matches
from trilens.rules import rule_files
from trilens.rules.thresholds import with_thresholds
from trilens.serve.access.sight import sight_of
from trilens.serve.alert_answers import alert_answer, rule_state
from trilens.serve.catalog import matcher_sets
from trilens.serve.envelope import reply
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client import Metric
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.alert.blindness import BlindRule
    from trilens.alert.evaluation import GroupState, RuleState
    from trilens.alert.rule import RuleGroup
    from trilens.alert.slo.file import Objective
    from trilens.model.alert import Alert
    from trilens.serve.access.sight import Sight
    from trilens.serve.params import Params
    from trilens.settings.tree import Settings

Blind: TypeAlias = "dict[tuple[RuleGroup, AlertingRule], BlindRule]"

BUILTIN: Final = Path("trilens/rules")  # where the shipped files seem to lie, wherever they do
_KINDS: Final = {RecordingRule: "recording", AlertingRule: "alerting"}
_TYPES: Final = {"": ("recording", "alerting"), "record": ("recording",), "alert": ("alerting",)}


def rule_groups(settings: Settings) -> list[RuleGroup]:
    """All groups to evaluate. Raises ConfigError with file, line and column."""
    return list(readable_rules(settings).checked())


def readable_rules(settings: Settings) -> RuleFile:
    """The same, without the groups that cannot be read: one bad file keeps nothing else from running."""
    if settings.source.url is not None:
        return RuleFile(())
    interval = settings.rules.evaluation_interval
    groups: list[RuleGroup] = []
    troubles: list[ConfigError] = []
    if settings.rules.builtin:
        for entry in rule_files():
            text = with_thresholds(entry.read_text(encoding="utf-8"), settings.rules.thresholds)
            groups += parse_rules(text, BUILTIN / entry.name, interval)
    seen: set[Path] = set()
    for pattern in settings.rules.files:
        for file in _matching(settings.base_dir, pattern):
            if file not in seen:
                seen.add(file)
                found = read_rules(file, interval)
                groups += found.groups
                troubles += found.troubles
    for file in _slo_files(settings):
        try:
            groups += parse_rules(slo_rules(read_slo_file(file), file.name), file, interval)
        except ConfigError as e:
            troubles.append(e)
    return RuleFile(tuple(groups), tuple(troubles))


def readable_objectives(settings: Settings) -> list[Objective]:
    """Of all files that can be read; what is wrong with the others is told where their rules are."""
    found: list[Objective] = []
    for file in _slo_files(settings):
        with suppress(ConfigError):
            found += read_slo_file(file)
    return found


def _slo_files(settings: Settings) -> list[Path]:
    patterns = settings.rules.slo_files
    return [file for pattern in patterns for file in _matching(settings.base_dir, pattern)]


def _matching(folder: Path, pattern: str) -> list[Path]:
    """A pattern is relative to the folder, whose own name is none."""
    if not glob.has_magic(pattern):
        return [folder / pattern]  # and if it is not there, that is an error
    found = glob.glob(pattern, root_dir=folder)  # noqa: PTH207  # Path.glob takes no absolute pattern
    return sorted(folder / name for name in found)


class RulesApi:
    def __init__(
        self,
        states: Callable[[], Sequence[GroupState]],
        blind: Callable[[], Blind] = dict,
        *,
        elsewhere: Callable[[], Sequence[dict[str, Any]]] = list,
    ) -> None:
        """`elsewhere` are groups that another server evaluates, as it answers them itself."""
        self._states = states
        self._blind = blind
        self._elsewhere = elsewhere

    async def rules(self, request: Request) -> Response:
        """There may be thousands of alerts: the server's loop waits for none of it."""
        return await asyncio.to_thread(self._rules, request, await read_params(request, 0))

    def _rules(self, request: Request, params: Params) -> Response:
        kind = params.first("type").lower()
        if kind not in _TYPES:
            raise RequestError(f'invalid parameter "type": not supported value "{kind}"')
        leaves_out = params.first("exclude_alerts") or "false"
        if leaves_out not in ("true", "false"):
            raise RequestError(f'invalid parameter "exclude_alerts": not a truth value: "{leaves_out}"')
        names, groups, files = (set(params.every(name)) for name in ("rule_name[]", "rule_group[]", "file[]"))
        selectors = matcher_sets(params)

        def is_wanted(of_kind: str, name: str, labels: Mapping[str, str]) -> bool:
            return (
                of_kind in _TYPES[kind]
                and (not names or name in names)
                and (
                    not selectors
                    or any(all(matches(m, labels.get(m.name, "")) for m in some) for some in selectors)
                )
            )

        sight = sight_of(request)
        blind = self._blind() if sight.is_whole else {}
        answer = []
        for state in self._states():
            if (groups and state.group.name not in groups) or (files and state.group.file not in files):
                continue
            rules = [
                _rule(state, rule, blind, sight, with_alerts=leaves_out == "false")
                for rule in state.rules
                if is_wanted(_KINDS[type(rule.rule)], rule.rule.name, dict(rule.rule.labels))
            ]
            if rules:
                answer.append(_group(state, rules))
        for group in self._elsewhere() if sight.is_whole else ():
            if (groups and group["name"] not in groups) or (files and group["file"] not in files):
                continue
            if told := [
                {name: text for name, text in rule.items() if name != "alerts" or leaves_out == "false"}
                for rule in group["rules"]
                if is_wanted(rule["type"], rule["name"], rule["labels"])
            ]:
                answer.append({**group, "rules": told})
        return reply(request, {"groups": answer})

    async def alerts(self, request: Request) -> Response:
        return await asyncio.to_thread(self._alerts, request)

    def _alerts(self, request: Request) -> Response:
        alerts = seen_alerts(active_alerts(self._states()), sight_of(request))
        return reply(request, {"alerts": [alert_answer(alert) for alert in alerts]})


def active_alerts(states: Sequence[GroupState]) -> list[Alert]:
    """Those that are pending or fire."""
    active = (rule.active for state in states for rule in state.rules)
    return [alert for one in active if one is not None for alert in one.alerts()]


def seen_alerts(alerts: Sequence[Alert], sight: Sight) -> Sequence[Alert]:
    """By their labels: what names no team is no team's."""
    if sight.is_whole:
        return alerts
    labels = ((alert, dict(alert.labels)) for alert in alerts)
    return [alert for alert, named in labels if sight.shows(named.get("cluster"), named.get("team") or None)]


def _group(state: GroupState, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": state.group.name,
        "file": state.group.file,
        "rules": rules,
        "interval": state.group.interval_ms / 1000,
        "limit": state.group.limit,
        "evaluationTime": state.evaluation_s,
        "lastEvaluation": stamp(state.last_evaluation_ms),
    }


def _rule(
    group: GroupState, state: RuleState, blind: Blind, sight: Sight, *, with_alerts: bool
) -> dict[str, Any]:
    rule = state.rule
    shared = {
        "name": rule.name,
        "query": rule.expr.strip(),
        "labels": dict(rule.labels),
        "health": state.health,
        # An error may name the series that it is about.
        **({"lastError": state.last_error} if state.last_error is not None and sight.is_whole else {}),
        "evaluationTime": state.evaluation_s,
        "lastEvaluation": stamp(state.last_evaluation_ms),
        "type": _KINDS[type(rule)],
    }
    if not isinstance(rule, AlertingRule):
        return shared
    alerts = seen_alerts(state.active.alerts(), sight) if state.active is not None else []
    lacking = blind.get((group.group, rule))
    return {
        **shared,
        "state": rule_state(alerts),
        "duration": rule.for_ms / 1000,
        "keepFiringFor": rule.keep_firing_for_ms / 1000,
        "annotations": dict(rule.annotations),
        **({"alerts": [alert_answer(alert) for alert in alerts]} if with_alerts else {}),
        **({"blind": lacking.told()} if lacking is not None else {}),
    }


def rule_metrics(states: Sequence[GroupState]) -> Iterator[Metric]:
    gauges = {
        "rules": ("Rules of a group.", lambda s: len(s.rules)),
        "interval_seconds": ("Time between two passes over a group.", lambda s: s.group.interval_ms / 1000),
        "last_duration_seconds": ("How long the last pass over a group took.", lambda s: s.evaluation_s),
        "last_evaluation_timestamp_seconds": (
            "The moment of the last pass over a group; absent before the first.",
            lambda s: None if s.last_evaluation_ms is None else s.last_evaluation_ms / 1000,
        ),
        "last_evaluation_samples": ("Samples that the last pass recorded.", lambda s: s.samples),
    }
    counters = {
        "rule_group_iterations": ("Passes over a group.", lambda s: s.iterations),
        "rule_group_iterations_missed": (
            "Passes that were left out, as the one before took too long.",
            lambda s: s.iterations_missed,
        ),
        "rule_evaluations": ("Rules evaluated.", lambda s: s.evaluations),
        "rule_evaluation_failures": ("Rules whose evaluation failed.", lambda s: s.failures),
    }
    for name, (text, read) in gauges.items():
        yield _by_group(
            GaugeMetricFamily(f"trilens_rule_group_{name}", text, labels=["rule_group"]), states, read
        )
    for name, (text, read) in counters.items():
        yield _by_group(CounterMetricFamily(f"trilens_{name}", text, labels=["rule_group"]), states, read)
    yield _alert_counts(states)


def _alert_counts(states: Sequence[GroupState]) -> Metric:
    family = GaugeMetricFamily("trilens_alerts", "Alerts that are pending or fire.", labels=["alertstate"])
    active = (rule.active for state in states for rule in state.rules)
    found = Counter(str(alert.state) for one in active if one is not None for alert in one.alerts())
    for state in (AlertState.PENDING, AlertState.FIRING):
        family.add_metric([str(state)], found[str(state)])
    return family


def _by_group(
    family: GaugeMetricFamily | CounterMetricFamily,
    states: Sequence[GroupState],
    read: Callable[[GroupState], float | None],
) -> Metric:
    for state in states:
        value = read(state)
        if value is not None:
            family.add_metric([f"{state.group.file};{state.group.name}"], value)
    return family
