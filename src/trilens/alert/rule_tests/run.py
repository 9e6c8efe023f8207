"""Runs a file of rule tests: groups are evaluated in steps, and asked for alerts and samples on the way."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trilens.alert.evaluation import GroupEvaluator, new_states
from trilens.alert.rule import AlertingRule
from trilens.alert.rule_file import read_rule_file
from trilens.alert.rule_tests.file import read_test_file
from trilens.alert.rule_tests.memory_sink import MemorySink
from trilens.alert.rule_tests.report import (
    Failure,
    FiringAlert,
    Report,
    SampleThere,
    alerts_text,
    samples_text,
)
from trilens.alert.templates.expand import External
from trilens.model.alert import AlertState
from trilens.model.errors import ConfigError, PromQLUnsupported, TrilensError
from trilens.model.labels import make_labels
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.promql.script import HISTOGRAM, Load, read_text
from trilens.settings.duration import format_duration, in_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trilens.alert.evaluation import GroupState
    from trilens.alert.rule import RuleGroup
    from trilens.alert.rule_tests.file import AlertTest, ExprTest, RuleTestFile, TestGroup
    from trilens.promql.script import Described

_LOOKBACK_MS: Final = 300_000


def run_test_file(file: Path) -> Report:
    """Never raises for what is in the file, or in those it names: the report has it."""
    try:
        read = read_test_file(file)
        groups = _ordered(read)
    except ConfigError as e:
        return Report(str(file), 0, (Failure(f"    {e}"),))
    failures: list[Failure] = []
    for test in read.tests:
        try:
            failures += _Run(read, test, groups).run()
        except TrilensError as e:
            failures.append(Failure(f"    {_named(test)}{e}", test.name))
    checks = sum(len(test.alert_rule_test) + len(test.promql_expr_test) for test in read.tests)
    return Report(
        str(file),
        checks,
        tuple(failures),
        tuple(f"no file match pattern {pattern}" for pattern in read.unmatched),
    )


def _ordered(read: RuleTestFile) -> list[RuleGroup]:
    """Those that the file puts in an order, in that order; the others with the first of them."""
    place = {name: i for i, name in enumerate(read.order)}
    groups = [
        group
        for file in read.rule_files
        for group in _read_once(file.resolve(), file.stat().st_mtime_ns, read.interval)
    ]
    return sorted(groups, key=lambda group: place.get(group.name, 0))


@lru_cache(maxsize=64)
def _read_once(file: Path, _changed_ns: int, interval: timedelta) -> tuple[RuleGroup, ...]:
    """Many files of tests have one rule file, and reading it takes longer than most tests."""
    return read_rule_file(file, interval)


class _Run:
    """One test: its samples, its rules, and how far they have come."""

    def __init__(self, file: RuleTestFile, test: TestGroup, groups: Sequence[RuleGroup]) -> None:
        self._fuzzy = file.fuzzy
        self._test = test
        self._step_ms = in_ms(file.interval)
        self._memory = MemorySource()
        self._told_ms = in_ms(test.interval or file.interval)
        self._loaded = list(_described(test, file.interval))
        self._loaded_to = 0  # intervals
        self._states = new_states(groups)
        self._evaluator = GroupEvaluator(
            self._memory,
            MemorySink(self._memory),
            QueryGuard,
            lookback_ms=_LOOKBACK_MS,
            external=External(test.external_url, make_labels(test.external_labels)),
        )

    def run(self) -> Iterator[Failure]:
        asked: dict[int, list[AlertTest]] = defaultdict(list)
        for one in self._test.alert_rule_test:
            if not one.alertname:
                raise ConfigError(
                    "an item under alert_rule_test misses required attribute alertname at eval_time "
                    f"{format_duration(one.eval_time)}"
                )
            asked[in_ms(one.eval_time) // self._step_ms * self._step_ms].append(one)
        for at_ms in range(0, in_ms(self._test.last) + 1, self._step_ms):
            self._load(at_ms)
            if troubles := list(self._evaluate(at_ms)):
                yield from troubles
                return
            for one in sorted(asked[at_ms], key=lambda one: one.eval_time):
                yield from self._compare_alerts(one)
        for expr in self._test.promql_expr_test:
            yield from self._compare_samples(expr)

    def _load(self, until_ms: int) -> None:
        """Samples up to a moment: a rule sees no later ones."""
        upto = until_ms // self._told_ms + 1
        for told in self._loaded:
            some = enumerate(told.points[self._loaded_to : upto], self._loaded_to)
            base = self._test.start_timestamp
            self._memory.add(
                told.labels, [(base + i * self._told_ms, v) for i, v in some if isinstance(v, float)]
            )
        self._loaded_to = upto

    def _evaluate(self, at_ms: int) -> Iterator[Failure]:
        for group in self._states:
            self._evaluator.evaluate(group, self._test.start_timestamp + at_ms)
            for rule in group.rules:
                if rule.last_error is not None:
                    when = format_duration(timedelta(milliseconds=at_ms))
                    text = f"    rule: {rule.rule.name}, time: {when}, err: {rule.last_error}"
                    yield Failure(text, self._test.name, rule.rule.name, when)

    def _compare_alerts(self, one: AlertTest) -> Iterator[Failure]:
        got = sorted(_firing(self._states, one.alertname))
        expected = sorted(
            FiringAlert(
                make_labels({**alert.exp_labels, "alertname": one.alertname}),
                make_labels(alert.exp_annotations),
            )
            for alert in one.exp_alerts
        )
        if got != expected:
            when = format_duration(one.eval_time)
            yield Failure(
                f"{_named(self._test)}    alertname: {one.alertname}, time: {when}, \n"
                f"        exp:{alerts_text(expected)}, \n        got:{alerts_text(got)}",
                self._test.name,
                one.alertname,
                when,
            )

    def _compare_samples(self, one: ExprTest) -> Iterator[Failure]:
        when = format_duration(one.eval_time)
        head = f"    expr: {json.dumps(one.expr, ensure_ascii=False)}, time: {when},"
        try:
            expected = sorted(
                SampleThere(_label_set(sample.labels), sample.value) for sample in one.exp_samples
            )
            got = sorted(self._samples(one))
        except TrilensError as e:
            yield Failure(f"{head} err: {e}", self._test.name, one.expr, when)
            return
        if [x.labels for x in got] != [x.labels for x in expected] or not all(
            self._is_equal(x.value, y.value) for x, y in zip(got, expected, strict=True)
        ):
            text = f"{head}\n        exp: {samples_text(expected)}\n        got: {samples_text(got)}"
            yield Failure(text, self._test.name, one.expr, when)

    def _samples(self, one: ExprTest) -> Iterator[SampleThere]:
        at_ms = self._test.start_timestamp + in_ms(one.eval_time)
        answer = Engine(self._memory, lookback_ms=_LOOKBACK_MS).instant(one.expr, at_ms, QueryGuard())
        for row, value in enumerate(answer.values[:, 0].tolist()):
            yield SampleThere(make_labels(answer.labels.labels(row)), value)

    def _is_equal(self, one: float, other: float) -> bool:
        return one == other or (
            self._fuzzy and other in (math.nextafter(one, -math.inf), math.nextafter(one, math.inf))
        )


def _firing(states: Sequence[GroupState], alertname: str) -> Iterator[FiringAlert]:
    """Of all rules of this name: several groups may have one."""
    for group in states:
        for rule in group.rules:
            if (
                rule.active is not None
                and isinstance(rule.rule, AlertingRule)
                and rule.rule.alert == alertname
            ):
                for alert in rule.active.alerts():
                    if alert.state is AlertState.FIRING:
                        yield FiringAlert(alert.labels, tuple(sorted(alert.annotations)))


def _described(test: TestGroup, interval: timedelta) -> Iterator[Described]:
    if not test.input_series:
        return
    every = format_duration(test.interval or interval)
    lines = "".join(f"  {one.series} {one.values}\n" for one in test.input_series)
    for command in read_text(f"load {every}\n{lines}", "input_series"):
        assert isinstance(command, Load)
        for told in command.series:
            if HISTOGRAM in told.points:
                raise PromQLUnsupported(f"native histograms are not supported: {told.labels}")
            yield told


def _label_set(written: str) -> tuple[tuple[str, str], ...]:
    if not written.strip("{} "):
        return ()
    (command,) = read_text(f"load 1s\n  {written} 0\n", "labels")
    assert isinstance(command, Load)
    return make_labels(command.series[0].labels)


def _named(test: TestGroup) -> str:
    return f"    name: {test.name},\n" if test.name else ""
