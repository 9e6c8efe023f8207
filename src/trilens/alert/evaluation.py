"""One group evaluated at one moment: rule after rule, each seeing what those before it recorded."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from trilens.alert.pass_source import PassSource
from trilens.alert.recorded import RecordedSeries
from trilens.alert.rule import RecordingRule
from trilens.alert.schedule import Schedule
from trilens.model.errors import PromQLEvalError, QueryCancelled, TrilensError
from trilens.model.labels import METRIC_NAME, LabelFrame
from trilens.model.series import Matcher, SelectRequest, stale_mask
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.alert.rule import Rule, RuleGroup
    from trilens.collect.sink import SampleSink
    from trilens.model.query import QueryGuard
    from trilens.model.series import AppendOutcome
    from trilens.promql.source import SeriesSource

log = logging.getLogger(__name__)

Health = Literal["unknown", "ok", "err"]


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
    by_record: dict[str, list[RecordingRule]] = {}
    for group in groups:
        for rule in group.rules:
            if isinstance(rule, RecordingRule):
                by_record.setdefault(rule.record, []).append(rule)

    def is_alone(rule: Rule) -> bool:
        return (
            isinstance(rule, RecordingRule) and sum(_may_meet(rule, r) for r in by_record[rule.record]) == 1
        )

    return [
        GroupState(group, tuple(RuleState(rule, is_alone(rule)) for rule in group.rules), Schedule.of(group))
        for group in groups
    ]


def _may_meet(one: RecordingRule, other: RecordingRule) -> bool:
    """Whether two rules of one name may record one series: not where a label of both has two values."""
    labels = dict(other.labels)
    return all(labels.get(name, value) == value for name, value in one.labels)


class GroupEvaluator:
    """Thread-safe as long as a group is evaluated by one thread at a time."""

    def __init__(
        self,
        source: SeriesSource,
        sink: SampleSink,
        guard: Callable[[], QueryGuard],
        *,
        lookback_ms: int,
    ) -> None:
        self._source = source
        self._sink = sink
        self._guard = guard
        self._lookback_ms = lookback_ms

    def evaluate(self, state: GroupState, at_ms: int) -> None:
        """Never raises for what a rule or the store may do wrong: the rule's state has it."""
        began = time.perf_counter()
        seen = PassSource(self._source)
        engine = Engine(seen, lookback_ms=self._lookback_ms)
        state.samples = 0
        for rule_state in state.rules:
            if isinstance(rule_state.rule, RecordingRule):
                self._evaluate_rule(state, rule_state, rule_state.rule, engine, seen, at_ms)
        state.iterations += 1
        state.last_evaluation_ms = at_ms
        state.evaluation_s = time.perf_counter() - began

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
        self,
        state: GroupState,
        rule_state: RuleState,
        rule: RecordingRule,
        engine: Engine,
        seen: PassSource,
        at_ms: int,
    ) -> None:
        began = time.perf_counter()
        state.evaluations += 1
        try:
            error = self._record(state, rule_state, rule, engine, at_ms - state.group.query_offset_ms)
            seen.recorded(rule.record)
        except QueryCancelled:
            return  # the server stops, or the rules were reloaded
        except TrilensError as e:
            error = str(e)
        except Exception as e:  # a defect in one rule's evaluation must not end the others
            log.exception("a rule was not evaluated", extra={"rule": rule.record})
            error = f"internal error: {type(e).__name__}; the server's log has more"
        if error is not None:
            state.failures += 1
            if error != rule_state.last_error:
                log.warning("a rule failed", extra={"rule": rule.record, "error": error})
        rule_state.health = "ok" if error is None else "err"
        rule_state.last_error = error
        rule_state.last_evaluation_ms = at_ms
        rule_state.evaluation_s = time.perf_counter() - began

    def _record(
        self, state: GroupState, rule_state: RuleState, rule: RecordingRule, engine: Engine, at_ms: int
    ) -> str | None:
        """What is wrong with what was written, if anything. Raises TrilensError with nothing written."""
        guard = self._guard()
        answer = engine.instant(rule.expr, at_ms, guard)
        if answer.kind not in ("vector", "scalar"):
            raise PromQLEvalError("rule result is not a vector or scalar")
        if rule_state.recorded is None:
            interval_ms = state.group.interval_ms
            shown = self._shown_before(rule, interval_ms, at_ms, guard) if rule_state.alone else None
            rule_state.recorded = RecordedSeries(shown)
        labels = _labelled(answer.labels, rule).settled()
        if not rule_state.recorded.is_same(labels):
            _refuse_equal(labels)
        limit = state.group.limit
        if limit and len(labels) > limit:
            raise PromQLEvalError(f"exceeded limit of {limit} with {len(labels)} series")
        outcome = rule_state.recorded.record(self._sink, labels, answer.values[:, 0], at_ms)
        state.samples += len(labels)
        return _told(outcome)

    def _shown_before(
        self, rule: RecordingRule, interval_ms: int, at_ms: int, guard: QueryGuard
    ) -> LabelFrame:
        """What this rule recorded before a restart and a query would still show.

        A sample of ours is a whole number of intervals old, to the millisecond; the same name from elsewhere
        is not.
        """
        own = [Matcher(name, "=", value) for name, value in rule.labels]
        request = SelectRequest(
            (Matcher(METRIC_NAME, "=", rule.record), *own), at_ms - self._lookback_ms, at_ms - 1
        )
        found = self._source.select(request, guard)
        t, v, offsets = found.samples
        last = offsets[1:] - 1
        alive = np.flatnonzero(last >= offsets[:-1])
        times = t[last[alive]]
        ours = (at_ms - times) % interval_ms == 0
        return found.labels.take(alive[ours & ~stale_mask(v[last[alive]])])


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
