"""What exporters really say, fact by fact: promtool's rule tests, read by promtool and by our own engine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from recording_rules import Recorder, RecordingRule, series, shipped_alerts
from servers import require_server
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.promql.script import Described, Load, milliseconds, read_text
from trilens.rules import rule_files

FACTS = sorted((Path(__file__).parent / "facts").glob("*.yml"))
each_fact = pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.stem)


def promtool(*arguments: str | Path) -> str:
    """What it says when it is content; its complaint fails the test."""
    done = subprocess.run(
        [require_server("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules() -> None:
    assert rule_files()
    for file in rule_files():
        assert "SUCCESS" in promtool("check", "rules", str(file))


@each_fact
def test_promtool_sees_the_fact(fact: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", fact)


@each_fact
def test_our_engine_sees_the_fact(fact: Path) -> None:
    described = yaml.safe_load(fact.read_text())
    step_ms = milliseconds(described["evaluation_interval"])
    for test in described["tests"]:
        source = MemorySource()
        told_ms = milliseconds(test["interval"])
        for told in loaded(test):
            points = ((i * told_ms, value) for i, value in enumerate(told.points))
            source.add(told.labels, [(at, float(value)) for at, value in points if isinstance(value, float)])
        files = [Path(file).name for file in described["rule_files"]]
        recorder, alerts = Recorder(source, *files), {rule.record: rule for rule in shipped_alerts(*files)}
        evaluated_ms = -step_ms
        every = [*test.get("promql_expr_test", ()), *test.get("alert_rule_test", ())]
        for asked in sorted(every, key=lambda asked: milliseconds(asked["eval_time"])):
            at_ms = milliseconds(asked["eval_time"])
            while evaluated_ms < at_ms:
                evaluated_ms += step_ms
                recorder.evaluate(evaluated_ms)
            if "alertname" in asked:
                fires(alerts[asked["alertname"]], asked["exp_alerts"], source, at_ms)
                continue
            found = series(Engine(source).instant(asked["expr"], at_ms, QueryGuard()))
            assert found == {
                label_set(sample["labels"]): pytest.approx(sample["value"]) for sample in asked["exp_samples"]
            }, f"{asked['expr']} at {asked['eval_time']}"


def fires(rule: RecordingRule, expected: list[dict[str, Any]], source: MemorySource, at_ms: int) -> None:
    """Whatever `for` says: that is promtool's to see."""
    found = series(Engine(source).instant(rule.expr, at_ms, QueryGuard()))
    named = [{*labels, *rule.labels} for labels in found]
    bare = [{(name, value) for name, value in labels if name != "__name__"} for labels in named]
    assert sorted(map(sorted, bare)) == sorted(sorted(one["exp_labels"].items()) for one in expected)


def loaded(test: dict[str, Any]) -> list[Described]:
    lines = "".join(f"  {told['series']} {told['values']}\n" for told in test["input_series"])
    (command,) = read_text(f"load {test['interval']}\n{lines}", "facts")
    assert isinstance(command, Load)
    return command.series


def label_set(written: str) -> frozenset[tuple[str, str]]:
    (command,) = read_text(f"load 1s\n  {written} 0\n", "facts")
    assert isinstance(command, Load)
    return frozenset(command.series[0].labels.items())
