"""Rules over a real store, step by step; each test uses metric names of its own."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trilens.alert.manager import RuleManager
from trilens.alert.rule_file import parse_rules
from trilens.model.labels import make_labels
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from trilens.alert.rule import RuleGroup
    from trilens.store.store import Store

MINUTE = timedelta(minutes=1)


def groups(text: str, file: str = "rules.yml") -> tuple[RuleGroup, ...]:
    return parse_rules(text, Path(file), MINUTE)


class Fleet:
    """Samples in, rules over them, and what a query then shows."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_ms = time.time_ns() // 60_000_000_000 * 60_000

    def put(self, name: str, at_ms: int, value: float, **labels: str) -> None:
        handle = self.store.series(make_labels({"__name__": name, **labels}))
        outcome = self.store.append(np.array([handle]), np.array([at_ms]), np.array([value]))
        assert outcome.accepted == 1

    def rules(self, *found: RuleGroup) -> RuleManager:
        return RuleManager(found, self.store, self.store)

    def run(self, manager: RuleManager, at_ms: int) -> None:
        for state in manager.states():
            manager.evaluate(state, at_ms)

    def shows(self, query: str, at_ms: int) -> dict[tuple[tuple[str, str], ...], float]:
        answer = Engine(self.store).instant(query, at_ms, QueryGuard())
        return {
            make_labels(answer.labels.labels(row)): float(answer.values[row, 0])
            for row in range(len(answer.labels))
        }
