"""Rules over a stretch of time at once: what would have been recorded and who would have been told, moment by
moment. A rule over fifteen moments takes about as long as over one."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.alert.active import ActiveAlerts
from trilens.alert.recorded import RecordedSeries
from trilens.alert.rule import AlertingRule, RecordingRule
from trilens.alert.templates.expand import NO_ADDRESS
from trilens.model.errors import QueryError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.alert.rule import Rule, RuleGroup
    from trilens.model.alert import Alert
    from trilens.promql.result import QueryResult
    from trilens.store.store import Store

log = logging.getLogger(__name__)

STEP_MS: Final = 240_000  # a series is shown for five minutes


class _Watched:
    """An alerting rule, and what it has active."""

    def __init__(self, rule: AlertingRule, group: RuleGroup) -> None:
        self.rule = rule
        self.active = ActiveAlerts(rule, group, NO_ADDRESS)
        self.recorded = RecordedSeries()


class _Recorded:
    """A rule that records, and the series that it recorded last."""

    def __init__(self, rule: RecordingRule) -> None:
        self.rule = rule
        self.alive: set[int] = set()


class RuleBlocks:
    def __init__(self, groups: Sequence[RuleGroup], store: Store) -> None:
        """Rules that record come before those that alert, else in the order of their files."""
        self._store = store
        rules = [(rule, group) for group in groups for rule in group.rules]
        self._recording = [_Recorded(rule) for rule, _ in rules if isinstance(rule, RecordingRule)]
        self._alerting = [_Watched(rule, group) for rule, group in rules if isinstance(rule, AlertingRule)]

    def evaluate(self, after_ms: int, to_ms: int) -> dict[int, list[Alert]]:
        """By the moment at which they would have been told."""
        engine = Engine(self._store)
        for recorded in self._recording:
            found = self._found(engine, recorded.rule, after_ms, to_ms)
            if found is not None:
                self._record(recorded, found)
        told: defaultdict[int, list[Alert]] = defaultdict(list)
        for watched in self._alerting:
            found = self._found(engine, watched.rule, after_ms, to_ms)
            if found is None:
                continue
            there = _there(found)
            for column, at_ms in enumerate(found.steps_ms.tolist()):
                rows = np.flatnonzero(there[:, column]) if len(found.labels) else np.zeros(0, np.int64)
                if len(rows) or len(watched.active) or len(watched.recorded):
                    told[at_ms] += self._step(watched, found, rows, column, at_ms, engine)
        return told

    def stop(self, at_ms: int) -> None:
        """From then on a server records them, with what it knows of them."""
        alive = np.array(sorted({one for recorded in self._recording for one in recorded.alive}), np.int64)
        self._end(alive, np.full(len(alive), at_ms, np.int64))

    def _found(self, engine: Engine, rule: Rule, after_ms: int, to_ms: int) -> QueryResult | None:
        """As on a server, one that fails is left out, and the others go on."""
        try:
            return engine.range(rule.expr, after_ms + STEP_MS, to_ms, STEP_MS, QueryGuard())
        except QueryError as e:
            log.info("a rule failed", extra={"rule": rule.name, "error": str(e)})
            return None

    def _step(
        self,
        watched: _Watched,
        found: QueryResult,
        rows: NDArray[np.int64],
        column: int,
        at_ms: int,
        engine: Engine,
    ) -> list[Alert]:
        def ask(query: str) -> list[tuple[dict[str, str], float]]:
            answer = engine.instant(query, at_ms, QueryGuard())
            return [
                (answer.labels.labels(row), value) for row, value in enumerate(answer.values[:, 0].tolist())
            ]

        watched.active.step(found.labels.take(rows), found.values[rows, column], at_ms, ask)
        told = watched.active.to_tell(at_ms)
        watched.recorded.record(self._store, *watched.active.series(), at_ms)
        return told

    def _record(self, recorded: _Recorded, found: QueryResult) -> None:
        """Where a series is not there any more, it ends: with other labels it may go on at once."""
        there, steps_ms = _there(found), found.steps_ms
        named = {METRIC_NAME: recorded.rule.record, **dict(recorded.rule.labels)}
        series = np.array(
            [
                self._store.series(make_labels({**found.labels.labels(row), **named}))
                for row in range(len(found.labels))
            ],
            np.int64,
        )
        began: set[int] = set()
        alive: set[int] = set()
        if len(series):
            rows, columns = np.nonzero(there)
            ended, before = np.nonzero(there[:, :-1] & ~there[:, 1:])
            at_ms = np.concatenate([steps_ms[columns], steps_ms[before + 1]])
            values = np.concatenate([found.values[there], np.full(len(ended), STALE_NAN)])
            order = np.argsort(at_ms, kind="stable")
            self._store.append(
                np.concatenate([series[rows], series[ended]])[order], at_ms[order], values[order]
            )
            began, alive = (set(series[there[:, column]].tolist()) for column in (0, -1))
        gone = np.array(sorted(recorded.alive - began), np.int64)
        self._end(gone, np.full(len(gone), steps_ms[0], np.int64))
        recorded.alive = alive

    def _end(self, series: NDArray[np.int64], at_ms: NDArray[np.int64]) -> None:
        if len(series):
            self._store.append(series, at_ms, np.full(len(series), STALE_NAN))


def _there(found: QueryResult) -> NDArray[np.bool_]:
    return found.present if found.present is not None else np.ones(found.values.shape, np.bool_)
