"""The groups, each evaluated when its time has come, in threads that nothing else waits for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from trilens.alert.evaluation import GroupEvaluator, GroupState, new_states
from trilens.alert.rule import RecordingRule
from trilens.model.query import QueryGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.alert.recorded import RecordedSeries
    from trilens.alert.rule import RuleGroup
    from trilens.collect.sink import SampleSink
    from trilens.promql.source import SeriesSource

_THREADS: Final = 4  # groups evaluated side by side: a slow one does not hold up the others
_LONGEST_WAIT_MS: Final = 60_000  # the clock may be set meanwhile


class RuleManager:
    """`start`, then `stop`; everything public may be called from any thread."""

    def __init__(
        self,
        groups: Sequence[RuleGroup],
        source: SeriesSource,
        sink: SampleSink,
        guard: Callable[[], QueryGuard] = QueryGuard,
        *,
        lookback_ms: int = 300_000,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._make_guard = guard
        self._now_ms = now_ms
        self._evaluator = GroupEvaluator(source, sink, self._guard, lookback_ms=lookback_ms)
        self._states = new_states(groups)
        self._orphans: list[RecordedSeries] = []  # of rules that are no more, not ended yet
        self._guards: WeakSet[QueryGuard] = WeakSet()
        self._changed = threading.Condition()
        self._stopping = False
        self._reloading = False
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rules")
        self._clock = threading.Thread(target=self._keep_time, name="rules-clock", daemon=True)

    def start(self) -> None:
        self._clock.start()

    def stop(self) -> None:
        """What is being evaluated is cancelled; nothing is written after this returns."""
        with self._changed:
            self._stopping = True
            for guard in self._guards:
                guard.cancel()
            self._changed.notify_all()
        if self._clock.is_alive():
            self._clock.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def states(self) -> list[GroupState]:
        with self._changed:
            return list(self._states)

    def reload(self, groups: Sequence[RuleGroup]) -> None:
        """Groups that did not change go on; series of rules that are no more end."""
        fresh = new_states(groups)
        with self._changed:
            self._reloading = True
            try:
                self._changed.wait_for(lambda: self._stopping or not any(s.running for s in self._states))
                if self._stopping:
                    return  # groups that were waiting for a thread will not get one any more
                kept = {state.group: state for state in self._states}
                self._states = [kept.pop(state.group, state) for state in fresh]
                self._orphans += _handed_over(list(kept.values()), self._states)
                self._evaluator.end(self._orphans, self._now_ms())
            finally:
                self._reloading = False
                self._changed.notify_all()

    def take_due(self, now_ms: int) -> list[tuple[GroupState, int]]:
        """Groups to evaluate now, each with its moment; one that is late or still at work misses some."""
        taken: list[tuple[GroupState, int]] = []
        with self._changed:
            if self._reloading or self._stopping:
                return taken
            for state in self._states:
                due, following = state.due_ms, state.schedule.after(now_ms)
                if due is not None and due <= now_ms:
                    latest = following - state.schedule.interval_ms
                    state.iterations_missed += (latest - due) // state.schedule.interval_ms + state.running
                    if not state.running:
                        state.running = True
                        taken.append((state, latest))
                state.due_ms = following
        return taken

    def evaluate(self, state: GroupState, at_ms: int) -> None:
        """In the thread that calls."""
        try:
            self._evaluator.evaluate(state, at_ms)
        finally:
            with self._changed:
                state.running = False
                self._changed.notify_all()
                self._evaluator.end(self._orphans, self._now_ms())

    def _keep_time(self) -> None:
        while True:
            for state, at_ms in self.take_due(self._now_ms()):
                self._pool.submit(self.evaluate, state, at_ms)
            with self._changed:
                if self._stopping:
                    return
                now = self._now_ms()
                soonest = min((state.due_ms or now for state in self._states), default=now + _LONGEST_WAIT_MS)
                if self._reloading:
                    soonest = now + _LONGEST_WAIT_MS  # its end wakes us
                self._changed.wait(min(max(soonest - now, 1), _LONGEST_WAIT_MS) / 1000)

    def _guard(self) -> QueryGuard:
        guard = self._make_guard()
        with self._changed:
            self._guards.add(guard)
            if self._stopping:
                guard.cancel()
        return guard


def _handed_over(old: list[GroupState], new: list[GroupState]) -> list[RecordedSeries]:
    """A rule of the same name and labels takes over what one that is gone recorded; the rest is returned."""
    left: dict[RecordingRule, list[RecordedSeries]] = {}
    for state in old:
        for rule_state in state.rules:
            if isinstance(rule_state.rule, RecordingRule) and rule_state.recorded is not None:
                left.setdefault(_without_expr(rule_state.rule), []).append(rule_state.recorded)
    for state in new:
        for rule_state in state.rules:
            if isinstance(rule_state.rule, RecordingRule) and rule_state.recorded is None:
                known = left.get(_without_expr(rule_state.rule))
                rule_state.recorded = known.pop(0) if known else None
    return [series for known in left.values() for series in known]


def _without_expr(rule: RecordingRule) -> RecordingRule:
    return RecordingRule(rule.record, "", rule.labels)
