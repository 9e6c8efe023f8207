"""Rule files: what is taken, and how what is wrong is said."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from servers import require_server
from trilens.alert.rule import AlertingRule, RecordingRule
from trilens.alert.rule_file import parse_rules, read_rules
from trilens.model.errors import ConfigError
from trilens.rules import rule_files

WHOLE = """\
groups:
- name: gpu
  interval: 30s
  query_offset: 1m
  limit: 10
  labels: {site: east, tier: 1}
  rules:
  - record: power:sum
    expr: sum(power)
    labels: {tier: gold}
  - alert: Hot
    expr: temperature > 90
    for: 5m
    keep_firing_for: 1m
    labels: {severity: page}
    annotations: {summary: too hot}
- name: other
  rules: []
"""


def read(text: str) -> tuple:
    return parse_rules(text, Path("rules.yml"), timedelta(minutes=1))


def test_everything_a_file_may_say() -> None:
    gpu, other = read(WHOLE)
    assert (gpu.file, gpu.name, gpu.interval_ms, gpu.query_offset_ms, gpu.limit) == (
        "rules.yml", "gpu", 30_000, 60_000, 10,
    )  # fmt: skip
    assert gpu.rules == (
        RecordingRule("power:sum", "sum(power)", (("site", "east"), ("tier", "gold"))),
        AlertingRule(
            "Hot",
            "temperature > 90",
            300_000,
            60_000,
            (("severity", "page"), ("site", "east"), ("tier", "1")),
            (("summary", "too hot"),),
        ),
    )
    assert other.interval_ms == 60_000  # what groups have that name none
    assert other.rules == ()


def test_an_empty_file_has_no_groups() -> None:
    assert read("") == read("groups: []") == ()


def test_the_shipped_files_are_read() -> None:
    for entry in rule_files():
        assert read(entry.read_text())[0].rules


RULE = "groups:\n- name: a\n  rules:\n  - record: x\n    expr: up\n"


def with_expr(expr: str) -> str:
    return RULE.replace("expr: up", f"expr: {expr}")


WRONG = {
    "a list": ("- a", "rules.yml:1:1: ", "must be a group of `name: value`"),
    "a key nobody knows": ("groups:\n- nam: a", "rules.yml:2:3: ", "did you mean 'name'?"),
    "no name": ("groups:\n- rules: []", "rules.yml:2:3: ", "a group needs a name"),
    "a group twice": ("groups:\n- name: a\n- name: a", "rules.yml:3:3: ", "is in this file a second time"),
    "a duration without unit": ("groups:\n- name: a\n  interval: 5", "rules.yml:3:3: ", "needs a unit"),
    "a limit below 0": ("groups:\n- name: a\n  limit: -1", "rules.yml:3:3: ", "greater than or equal to 0"),
    "record and alert": (RULE + "    alert: y\n", "rules.yml:4:5: ", "either `record` or `alert`"),
    "neither": ("groups:\n- name: a\n  rules:\n  - expr: up", "rules.yml:4:5: ", "either `record` or"),
    "no expr": ("groups:\n- name: a\n  rules:\n  - record: x", "rules.yml:4:5: ", "needs an `expr`"),
    "a record that is no name": (RULE.replace("x\n", "x-y\n"), "rules.yml:4:5: ", "not a metric name"),
    "for": (RULE + "    for: 1m\n", "rules.yml:6:5: ", "`for` is for alerts"),
    "annotations": (RULE + "    annotations: {a: b}\n", "rules.yml:6:5: ", "annotations are for alerts"),
    "a label name": (RULE + "    labels: {a-b: c}\n", "rules.yml:6:14: ", "'a-b' is not a label name"),
    "the metric's name": (RULE + "    labels: {__name__: c}\n", "rules.yml:6:14: ", "that a rule may set"),
    "an expression": (with_expr("sum(up"), "rules.yml:5:17: ", "unclosed left parenthesis"),
    "a quoted expression": (with_expr("'up +'"), "rules.yml:5:16: ", "unexpected end of input"),
    "an expression in a block": (
        with_expr("|\n      sum(\n        up ++\n      )"),
        "rules.yml:8:7: ",
        "expected an expression",
    ),
    "a folded expression": (with_expr(">\n      sum(\n      up"), "rules.yml:5:11: ", "unclosed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(case: str, tmp_path: Path) -> None:
    text, where, message = WRONG[case]
    with pytest.raises(ConfigError) as failed:
        read(text)
    assert str(failed.value).startswith(where)
    assert message in str(failed.value)


@pytest.mark.parametrize("case", [case for case in WRONG if case != "a limit below 0"])
def test_promtool_refuses_the_same(case: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(WRONG[case][0])
    command = [require_server("promtool"), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode != 0


def test_a_group_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(
        "groups:\n"
        "- {name: a, rules: [{record: x, expr: up}]}\n"
        "- {name: b, rules: [{record: x, expr: 'sum('}]}\n"
        "- {name: c, rules: [{alert: X, expr: up, annotations: {s: '{{ $nope }}'}}]}\n"
        "- {name: d, intervall: 5s}\n"
        "- 5\n"
        "- {name: e, rules: [{alert: X, expr: up, labels: {s: '{{ $labels.job }}'}}]}\n"
    )
    found = read_rules(file, timedelta(minutes=1))
    assert [group.name for group in found.groups] == ["a", "e"]
    said = [str(trouble) for trouble in found.troubles]
    assert [text.removeprefix(str(tmp_path)) for text in said] == [
        "/rules.yml:3:44: groups[1].rules[0].expr: unclosed left parenthesis, opened at 1:4",
        "/rules.yml:4:56: groups[2].rules[0].annotations.s: template: __alert_X:1: undefined variable "
        '"$nope"',
        "/rules.yml:5:13: unknown setting 'groups[3].intervall' (did you mean 'interval'?)",
        "/rules.yml:6:3: groups[4]: must be a group of `name: value`",
    ]
    with pytest.raises(ConfigError, match="unclosed left parenthesis"):
        found.checked()
    file.write_text("groups: [")
    whole = read_rules(file, timedelta(minutes=1))
    assert (whole.groups, len(whole.troubles)) == ((), 1)
