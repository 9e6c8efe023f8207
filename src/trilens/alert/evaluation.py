"""One group evaluated at one moment: rule after rule, each seeing what those before it recorded."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from trilens.alert.active import ALERTS, ALERTS_FOR_STATE, OUTAGE_TOLERANCE_MS, ActiveAlerts, Before
from trilens.alert.pass_source import PassSource
from trilens.alert.recorded import RecordedSeries
from trilens.alert.rule import RecordingRule
from trilens.alert.schedule import Schedule
from trilens.model.errors import PromQLEvalError, QueryCancelled, TrilensError
from trilens.model.labels import METRIC_NAME, LabelFrame, make_labels
from trilens.model.matcher import Matcher
from trilens.model.series import SelectRequest, stale_mask
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trilens.alert.rule import AlertingRule, Rule, RuleGroup
    from trilens.alert.templates.expand import External
    from trilens.collect.sink import SampleSink
    from trilens.model.alert import Alert
    from trilens.model.query import QueryGuard
    from trilens.model.series import AppendOutcome
    from trilens.promql.result import QueryResult
    from trilens.promql.source import SeriesSource

log = logging.getLogger(__name__)

Health = Literal["unknown", "ok", "err"]
_ALERT_SERIES: Final = f"{ALERTS}|{ALERTS_FOR_STATE}"


@dataclass(slots=True)
class RuleState:
    """How a rule fared last, and what it recorded."""

    rule: Rule
    alone: bool  # no other rule may record the same series
    health: Health = "unknown"
    last_error: str | None = None
    last_evaluation_ms: int | None = None
    evaluation_s: float = 0.0
    recorded: RecordedSeries | None = None  # None until the first time
    active: ActiveAlerts | None = None  # of an alerting rule; None until the first time


@dataclass(slots=True)
class GroupState:
    """Written by the thread that evaluates the group, read by others."""

    group: RuleGroup
    rules: tuple[RuleState, ...]
    schedule: Schedule
    last_evaluation_ms: int | None = None
    evaluation_s: float = 0.0
    samples: int = 0  # recorded by the last pass
    iterations: int = 0
    iterations_missed: int = 0
    evaluations: int = 0
    failures: int = 0
    running: bool = False
    due_ms: int | None = None  # the next pass; None until the clock has seen the group


def new_states(groups: Sequence[RuleGroup]) -> list[GroupState]:
    """All groups at once, for what rules know of each other."""
    by_name: dict[tuple[type, str], list[Rule]] = {}
    for group in groups:
        for rule in group.rules:
            by_name.setdefault((type(rule), rule.name), []).append(rule)

    def is_alone(rule: Rule) -> bool:
        return sum(_may_meet(rule, other) for other in by_name[type(rule), rule.name]) == 1

    return [
        GroupState(group, tuple(RuleState(rule, is_alone(rule)) for rule in group.rules), Schedule.of(group))
        for group in groups
    ]


def _may_meet(one: Rule, other: Rule) -> bool:
    """Whether two rules of one name may record one series: not where a label of both has two values."""
    labels = dict(other.fixed_labels)
    return all(labels.get(name, value) == value for name, value in one.fixed_labels)


class GroupEvaluator:
    """Thread-safe as long as a group is evaluated by one thread at a time."""

    def __init__(
        self,
        source: SeriesSource,
        sink: SampleSink,
        guard: Callable[[], QueryGuard],
        *,
        lookback_ms: int,
        external: External,
    ) -> None:
        self._source = source
        self._sink = sink
        self._guard = guard
        self._lookback_ms = lookback_ms
        self._external = external

    def evaluate(self, state: GroupState, at_ms: int) -> list[Alert]:
        """The alerts to tell of. Never raises for what a rule or the store may do wrong: the rule's state
        has it."""
        began = time.perf_counter()
        seen = PassSource(self._source)
        engine = Engine(seen, lookback_ms=self._lookback_ms)
        state.samples = 0
        to_tell: list[Alert] = []
        for rule_state in state.rules:
            to_tell += self._evaluate_rule(state, rule_state, engine, seen, at_ms)
        state.iterations += 1
        state.last_evaluation_ms = at_ms
        state.evaluation_s = time.perf_counter() - began
        return to_tell

    def end(self, orphans: list[RecordedSeries], at_ms: int) -> None:
        """Series of rules that are no more get their end; those that cannot stay in the list."""
        for series in orphans.copy():
            try:
                series.end(self._sink, at_ms)
            except TrilensError as e:
                log.warning("series of a removed rule were not ended", extra={"error": str(e)})
                return
            orphans.remove(series)

    def _evaluate_rule(
        self, state: GroupState, rule_state: RuleState, engine: Engine, seen: PassSource, at_ms: int
    ) -> list[Alert]:
        began = time.perf_counter()
        state.evaluations += 1
        rule = rule_state.rule
        to_tell: list[Alert] = []
        try:
            if isinstance(rule, RecordingRule):
                error = self._record(state, rule_state, rule, engine, at_ms - state.group.query_offset_ms)
                seen.recorded(rule.record)
            else:
                error, to_tell = self._alert(state, rule_state, rule, engine, seen, at_ms)
        except QueryCancelled:
            return []  # the server stops, or the rules were reloaded
        except TrilensError as e:
            error = str(e)
        except Exception as e:  # a defect in one rule's evaluation must not end the others
            log.exception("a rule was not evaluated", extra={"rule": rule.name})
            error = f"internal error: {type(e).__name__}; the server's log has more"
        if error is not None:
            state.failures += 1
            if error != rule_state.last_error:
                log.warning("a rule failed", extra={"rule": rule.name, "error": error})
        rule_state.health = "ok" if error is None else "err"
        rule_state.last_error = error
        rule_state.last_evaluation_ms = at_ms
        rule_state.evaluation_s = time.perf_counter() - began
        return to_tell

    def _record(
        self, state: GroupState, rule_state: RuleState, rule: RecordingRule, engine: Engine, at_ms: int
    ) -> str | None:
        """What is wrong with what was written, if anything. Raises TrilensError with nothing written."""
        guard = self._guard()
        answer = _vector(engine, rule.expr, at_ms, guard)
        if rule_state.recorded is None:
            rule_state.recorded = self._recorded(state, rule_state, rule.record, at_ms, guard)
        labels = _labelled(answer.labels, rule).settled()
        if not rule_state.recorded.is_same(labels):
            _refuse_equal(labels)
        limit = state.group.limit
        if limit and len(labels) > limit:
            raise PromQLEvalError(f"exceeded limit of {limit} with {len(labels)} series")
        outcome = rule_state.recorded.record(self._sink, labels, answer.values[:, 0], at_ms)
        state.samples += len(labels)
        return _told(outcome)

    def _alert(
        self,
        state: GroupState,
        rule_state: RuleState,
        rule: AlertingRule,
        engine: Engine,
        seen: PassSource,
        at_ms: int,
    ) -> tuple[str | None, list[Alert]]:
        """The same, and the alerts to tell of."""
        guard = self._guard()
        seen_ms = at_ms - state.group.query_offset_ms
        answer = _vector(engine, rule.expr, seen_ms, guard)
        if rule_state.recorded is None:
            rule_state.recorded = self._recorded(state, rule_state, _ALERT_SERIES, seen_ms, guard)
        if rule_state.active is None:
            active = ActiveAlerts(rule, state.group, self._external)
            before = self._active_before(rule, at_ms, state.group.query_offset_ms, guard)
            active.restore(before, at_ms, awaited=rule_state.alone)
            rule_state.active = active

        def ask(query: str) -> list[tuple[dict[str, str], float]]:
            found = _vector(engine, query, at_ms, guard)
            return [
                (found.labels.labels(row), value) for row, value in enumerate(found.values[:, 0].tolist())
            ]

        rule_state.active.step(answer.labels, answer.values[:, 0], at_ms, ask)
        if not len(rule_state.active) and not len(rule_state.recorded):
            return None, []
        to_tell = rule_state.active.to_tell(at_ms)
        try:
            outcome = rule_state.recorded.record(self._sink, *rule_state.active.series(), seen_ms)
        except TrilensError as e:  # a disk that is full is no reason to keep silent
            return str(e), to_tell
        for metric in (ALERTS, ALERTS_FOR_STATE):
            seen.recorded(metric)
        state.samples += len(rule_state.recorded)
        return _told(outcome), to_tell

    def _recorded(
        self, state: GroupState, rule_state: RuleState, names: str, at_ms: int, guard: QueryGuard
    ) -> RecordedSeries:
        if not rule_state.alone:
            return RecordedSeries()
        return RecordedSeries(
            self._shown_before(rule_state.rule, names, state.group.interval_ms, at_ms, guard)
        )

    def _active_before(
        self, rule: AlertingRule, at_ms: int, offset_ms: int, guard: QueryGuard
    ) -> Iterator[Before]:
        """What was active when this rule was last evaluated, before a restart; it was written `offset_ms`
        earlier than that."""
        seen_ms = at_ms - offset_ms
        request = SelectRequest(
            (Matcher(METRIC_NAME, "=", ALERTS_FOR_STATE), *_own(rule)),
            seen_ms - OUTAGE_TOLERANCE_MS,
            seen_ms - 1,
        )
        found = self._source.select(request, guard)
        t, v, offsets = found.samples
        last = offsets[1:] - 1
        alive = np.flatnonzero(last >= offsets[:-1])
        for row in alive[np.isfinite(v[last[alive]])].tolist():
            labels = found.labels.labels(row)
            del labels[METRIC_NAME]
            yield Before(make_labels(labels), int(v[last[row]]) * 1000, int(t[last[row]]) + offset_ms)

    def _shown_before(
        self, rule: Rule, names: str, interval_ms: int, at_ms: int, guard: QueryGuard
    ) -> LabelFrame:
        """What this rule recorded before a restart and a query would still show.

        A sample of ours is a whole number of intervals old, to the millisecond; the same name from elsewhere
        is not.
        """
        name = Matcher(METRIC_NAME, "=~" if names is _ALERT_SERIES else "=", names)
        request = SelectRequest((name, *_own(rule)), at_ms - self._lookback_ms, at_ms - 1)
        found = self._source.select(request, guard)
        t, v, offsets = found.samples
        last = offsets[1:] - 1
        alive = np.flatnonzero(last >= offsets[:-1])
        times = t[last[alive]]
        ours = (at_ms - times) % interval_ms == 0
        return found.labels.take(alive[ours & ~stale_mask(v[last[alive]])])


def _own(rule: Rule) -> tuple[Matcher, ...]:
    """The labels that all series of a rule have."""
    named = () if isinstance(rule, RecordingRule) else (("alertname", rule.alert),)
    return tuple(Matcher(name, "=", value) for name, value in (*rule.fixed_labels, *named))


def _vector(engine: Engine, expr: str, at_ms: int, guard: QueryGuard) -> QueryResult:
    answer = engine.instant(expr, at_ms, guard)
    if answer.kind not in ("vector", "scalar"):
        raise PromQLEvalError("rule result is not a vector or scalar")
    return answer


def _labelled(labels: LabelFrame, rule: RecordingRule) -> LabelFrame:
    for name, value in ((METRIC_NAME, rule.record), *rule.labels):
        if value:
            codes = np.full(len(labels), labels.symbols.intern(value), np.int32)
            labels = labels.with_column(name, codes)
        else:
            labels = labels.drop((name,))
    return labels


SAME_LABELS: Final = "vector contains metrics with the same labelset after applying rule labels"


def _refuse_equal(labels: LabelFrame) -> None:
    if len(labels.groups()[1]) < len(labels):
        raise PromQLEvalError(SAME_LABELS)


def _told(outcome: AppendOutcome) -> str | None:
    refused = {
        "at the time of another value": outcome.duplicate,
        "older than the newest one of their series": outcome.out_of_order + outcome.too_old,
        "too far in the future": outcome.too_far_ahead,
    }
    parts = [f"{count:,} samples were refused: {why}" for why, count in refused.items() if count]
    return "; ".join(parts) or None
