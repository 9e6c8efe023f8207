"""Recording rules over a span of time at once: what would have been recorded, minute by minute."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.alert.rule import RecordingRule
from trilens.alert.rule_file import parse_rules
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN
from trilens.promql.engine import Engine
from trilens.rules import rule_files
from trilens.serve.rules import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.store.store import Store

_STEP_MS: Final = 60_000
_WHAT_SERVERS_DO: Final = "serving.yml"  # of GPUs the ledger reads the fields of their exporter where need be


class RecordedRules:
    def __init__(self, store: Store) -> None:
        self._store = store
        (entry,) = (one for one in rule_files() if one.name == _WHAT_SERVERS_DO)
        groups = parse_rules(entry.read_text(encoding="utf-8"), BUILTIN / entry.name, timedelta(minutes=1))
        self._rules = [rule for group in groups for rule in group.rules if isinstance(rule, RecordingRule)]
        self._recorded: set[int] = set()

    def record(self, after_ms: int, to_ms: int) -> None:
        """Each rule sees what those before it recorded in the same minutes."""
        engine = Engine(self._store)
        for rule in self._rules:
            found = engine.range(rule.expr, after_ms + _STEP_MS, to_ms, _STEP_MS, QueryGuard())
            if not len(found.labels):
                continue
            there = found.present if found.present is not None else np.ones(found.values.shape, np.bool_)
            series = [self._series(rule, found.labels.labels(row)) for row in range(len(found.labels))]
            self._recorded.update(series)
            rows, steps = np.nonzero(there)
            self._store.append(np.array(series, np.int64)[rows], found.steps_ms[steps], found.values[there])

    def stop(self, at_ms: int) -> None:
        """From then on another may record them, with what it knows of them."""
        series = np.array(sorted(self._recorded), np.int64)
        self._store.append(series, np.full(len(series), at_ms, np.int64), np.full(len(series), STALE_NAN))

    def _series(self, rule: RecordingRule, found: Mapping[str, str]) -> int:
        return self._store.series(make_labels({**found, METRIC_NAME: rule.record, **dict(rule.labels)}))
