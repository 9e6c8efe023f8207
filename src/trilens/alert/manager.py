"""The groups, each evaluated when its time has come, in threads that nothing else waits for."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from trilens.alert.evaluation import GroupEvaluator, GroupState, new_states
from trilens.alert.handover import hand_over
from trilens.alert.templates.expand import NO_ADDRESS
from trilens.model.query import QueryGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.alert.recorded import RecordedSeries
    from trilens.alert.rule import RuleGroup
    from trilens.alert.templates.expand import External
    from trilens.collect.sink import SampleSink
    from trilens.model.alert import Alert
    from trilens.model.errors import ConfigError
    from trilens.promql.source import SeriesSource

log = logging.getLogger(__name__)

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
        external: External = NO_ADDRESS,
        on_alerts: Callable[[Sequence[Alert]], None] | None = None,
        unread: tuple[ConfigError, ...] = (),
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`on_alerts` gets, after each pass over a group, those of its alerts that fire or have just
        resolved, and those again that were told a minute ago. It is called in the threads that evaluate."""
        self.unread = unread  # groups that could not be read, and are left out
        self._make_guard = guard
        self._now_ms = now_ms
        self._on_alerts = on_alerts
        self._external = external
        self._evaluator = GroupEvaluator(
            source, sink, self._guard, lookback_ms=lookback_ms, external=external
        )
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
        resolved: list[Alert] = []
        with self._changed:
            self._reloading = True
            try:
                self._changed.wait_for(lambda: self._stopping or not any(s.running for s in self._states))
                if self._stopping:
                    return  # groups that were waiting for a thread will not get one any more
                self.unread = ()
                kept = {state.group: state for state in self._states}
                self._states = [kept.pop(state.group, state) for state in fresh]
                gone = hand_over(list(kept.values()), self._states, self._external)
                self._orphans += [rule.recorded for rule in gone if rule.recorded is not None]
                now = self._now_ms()
                resolved = [
                    alert for rule in gone if rule.active is not None for alert in rule.active.end(now)
                ]
                self._evaluator.end(self._orphans, now)
            finally:
                self._reloading = False
                self._changed.notify_all()
        self._tell(resolved)

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
            self._tell(self._evaluator.evaluate(state, at_ms))
        finally:
            with self._changed:
                state.running = False
                self._changed.notify_all()
                self._evaluator.end(self._orphans, self._now_ms())

    def _tell(self, alerts: Sequence[Alert]) -> None:
        if alerts and self._on_alerts is not None:
            try:
                self._on_alerts(alerts)
            except Exception:  # they are told again in a minute
                log.exception("alerts were not handed on", extra={"alerts": len(alerts)})

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
