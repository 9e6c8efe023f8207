"""The rules: which there are, and how they fare, on /api/v1/rules and /metrics."""

from __future__ import annotations

import glob
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.alert.rule import AlertingRule
from trilens.alert.rule_file import parse_rules, read_rule_file
from trilens.model.errors import RequestError
from trilens.rules import rule_files
from trilens.serve.envelope import reply
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.alert.evaluation import GroupState, RuleState
    from trilens.alert.rule import RuleGroup
    from trilens.settings.tree import Settings

BUILTIN: Final = Path("trilens/rules")  # where the shipped files seem to lie, wherever they do
_NEVER: Final = "0001-01-01T00:00:00Z"
_TYPES: Final = {"": ("recording", "alerting"), "record": ("recording",), "alert": ("alerting",)}


def rule_groups(settings: Settings) -> list[RuleGroup]:
    """All groups to evaluate. Raises ConfigError with file, line and column."""
    if settings.source.url is not None:
        return []
    interval = settings.rules.evaluation_interval
    groups: list[RuleGroup] = []
    if settings.rules.builtin:
        for entry in rule_files():
            groups += parse_rules(entry.read_text(encoding="utf-8"), BUILTIN / entry.name, interval)
    seen: set[Path] = set()
    for pattern in settings.rules.files:
        for file in _matching(settings.base_dir, pattern):
            if file not in seen:
                seen.add(file)
                groups += read_rule_file(file, interval)
    return groups


def _matching(folder: Path, pattern: str) -> list[Path]:
    """A pattern is relative to the folder, whose own name is none."""
    if not glob.has_magic(pattern):
        return [folder / pattern]  # and if it is not there, that is an error
    found = glob.glob(pattern, root_dir=folder)  # noqa: PTH207  # Path.glob takes no absolute pattern
    return sorted(folder / name for name in found)


class RulesApi:
    def __init__(self, states: Callable[[], Sequence[GroupState]]) -> None:
        self._states = states

    async def rules(self, request: Request) -> Response:
        params = await read_params(request, 0)
        kind = params.first("type").lower()
        if kind not in _TYPES:
            raise RequestError(f'invalid parameter "type": not supported value "{kind}"')
        names, groups, files = (set(params.every(name)) for name in ("rule_name[]", "rule_group[]", "file[]"))
        answer = []
        for state in self._states():
            if (groups and state.group.name not in groups) or (files and state.group.file not in files):
                continue
            rules = [_rule(rule) for rule in state.rules]
            rules = [r for r in rules if r["type"] in _TYPES[kind] and (not names or r["name"] in names)]
            if rules:
                answer.append(_group(state, rules))
        return reply(request, {"groups": answer})


def _group(state: GroupState, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": state.group.name,
        "file": state.group.file,
        "rules": rules,
        "interval": state.group.interval_ms / 1000,
        "limit": state.group.limit,
        "evaluationTime": state.evaluation_s,
        "lastEvaluation": _stamp(state.last_evaluation_ms),
    }


def _rule(state: RuleState) -> dict[str, Any]:
    rule = state.rule
    shared = {
        "query": rule.expr.strip(),
        "labels": dict(rule.labels),
        "health": state.health,
        **({"lastError": state.last_error} if state.last_error is not None else {}),
        "evaluationTime": state.evaluation_s,
        "lastEvaluation": _stamp(state.last_evaluation_ms),
    }
    if isinstance(rule, AlertingRule):
        return {
            "name": rule.alert,
            **shared,
            "type": "alerting",
            "state": "inactive",
            "duration": rule.for_ms / 1000,
            "keepFiringFor": rule.keep_firing_for_ms / 1000,
            "annotations": dict(rule.annotations),
            "alerts": [],
        }
    return {"name": rule.record, **shared, "type": "recording"}


def _stamp(moment_ms: int | None) -> str:
    if moment_ms is None:
        return _NEVER
    return (
        datetime.fromtimestamp(moment_ms / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


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
