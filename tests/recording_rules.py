"""The shipped recording rules under our own engine, evaluated as in Prometheus: in the order of the file,
each result at hand for the next rule, and series that are not there any more ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import yaml

from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN
from trilens.promql.engine import Engine
from trilens.rules import rule_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.promql.memory import MemorySource
    from trilens.promql.result import QueryResult

LabelSet = frozenset[tuple[str, str]]
Series = dict[LabelSet, float]


class RecordingRule(NamedTuple):
    record: str
    expr: str
    labels: LabelSet


def shipped_rules(*names: str) -> Iterator[RecordingRule]:
    """Of all files, or of those of these names."""
    for file in rule_files():
        if names and file.name not in names:
            continue
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                if "record" not in rule:
                    continue
                yield RecordingRule(rule["record"], rule["expr"], frozenset(rule.get("labels", {}).items()))


def series(answer: QueryResult) -> Series:
    return {
        frozenset(answer.labels.labels(row).items()): float(answer.values[row, 0])
        for row in range(len(answer.labels))
    }


class Recorder:
    def __init__(self, source: MemorySource, *names: str) -> None:
        """`names` of rule files; all when there are none."""
        self._source = source
        self._rules = tuple(shipped_rules(*names))
        self._before: dict[RecordingRule, set[LabelSet]] = {rule: set() for rule in self._rules}

    def evaluate(self, at_ms: int) -> dict[str, Series]:
        """What each record holds at that time."""
        recorded: dict[str, Series] = {rule.record: {} for rule in self._rules}
        for rule in self._rules:
            answer = Engine(self._source).instant(rule.expr, at_ms, QueryGuard())
            found = {_renamed(labels) | rule.labels: value for labels, value in series(answer).items()}
            assert len(found) == len(answer.labels), f"{rule.record} holds a series twice"
            assert not found.keys() & recorded[rule.record].keys(), (
                f"two rules write one series of {rule.record}"
            )
            recorded[rule.record].update(found)
            for labels, value in found.items():
                self._source.add({**dict(labels), "__name__": rule.record}, [(at_ms, value)])
            # Before the next rule, or it would join with what is not there any more.
            for labels in self._before[rule] - found.keys():
                self._source.add({**dict(labels), "__name__": rule.record}, [(at_ms, STALE_NAN)])
            self._before[rule] = set(found)
        return recorded


def _renamed(labels: LabelSet) -> LabelSet:
    """What `or` hands on has kept its name; a record has its own."""
    return frozenset((name, value) for name, value in labels if name != "__name__")
