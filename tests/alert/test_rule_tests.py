"""Unit tests of rules: what promtool says of a file, our own runner says too."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from servers import require_server
from trilens.alert.rule_tests.run import run_test_file
from trilens.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

RULES = """\
groups:
- name: second
  rules:
  - alert: Hot
    expr: doubled > 10
    for: 2m
    labels: {severity: page}
    annotations:
      summary: 'a "quoted" {{ $value }} {{ $labels.host }} at {{ $externalURL }} {{ $externalLabels.zone }}'
- name: first
  rules:
  - record: doubled
    expr: 2 * load
"""
WRONG = """\
rule_files: [rules.yml, nothing*.yml]
evaluation_interval: 1m
group_eval_order: [first, second]
tests:
- name: wrong expectations
  interval: 1m
  external_labels: {zone: eu}
  external_url: http://prom.example
  input_series:
  - {series: 'load{host="a"}', values: '6x5 1x5'}
  - {series: 'load{host="b"}', values: '7+0.5x10'}
  alert_rule_test:
  - eval_time: 3m30s
    alertname: Hot
    exp_alerts:
    - exp_labels: {severity: page, host: a}
      exp_annotations: {summary: other}
  - eval_time: 1m
    alertname: Hot
    exp_alerts:
    - exp_labels: {severity: page, host: a}
  - eval_time: 9m
    alertname: Hot
    exp_alerts: []
  - eval_time: 5m
    alertname: Cold
    exp_alerts: []
  promql_expr_test:
  - expr: doubled
    eval_time: 90s
    exp_samples:
    - {labels: 'doubled{host="a"}', value: 12.5}
  - expr: doubled * 1e-9 + 123456789
    eval_time: 2m
    exp_samples: []
  - expr: nothing{a="b"}
    eval_time: 1m
    exp_samples:
    - {labels: '{a="b"}', value: 1}
  - expr: 1 / 0
    eval_time: 1m
    exp_samples: [{labels: '{}', value: -0.25}]
- input_series: [{series: load, values: '_x2 3 stale'}]
  interval: 2m
  promql_expr_test:
  - {expr: load, eval_time: 4m, exp_samples: [{labels: load, value: 3}]}
  - {expr: load, eval_time: 6m, exp_samples: []}
"""
FAILS = """\
rule_files: [same.yml]
tests:
- interval: 1m
  input_series:
  - {series: 'load{host="a"}', values: '6x5'}
  - {series: 'load{host="b"}', values: '6x5'}
  promql_expr_test:
  - {expr: load, eval_time: 3m, exp_samples: []}
"""
SAME = "groups:\n- name: g\n  rules:\n  - {record: both, expr: load, labels: {host: c}}\n"


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yml").write_text(text)
    return folder


@pytest.mark.parametrize("text", [WRONG, FAILS], ids=["wrong expectations", "a rule that fails"])
def test_a_failure_is_told_in_promtools_words(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, rules=RULES, same=SAME, tests=text) / "tests.yml"
    theirs = subprocess.run(
        [require_server("promtool"), "test", "rules", file], capture_output=True, text=True, check=False
    )
    ours = CliRunner().invoke(app, ["rules", "test", str(file)])
    assert (ours.exit_code, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr.replace(f"{tmp_path}/", "") == theirs.stderr.replace(f"{tmp_path}/", "")
    assert ours.exit_code == 1
    assert "FAILED" in ours.stderr


def test_json_names_what_failed(tmp_path: Path) -> None:
    written(tmp_path, rules=RULES, tests=WRONG, fine="tests: []\n")
    done = CliRunner().invoke(
        app, ["rules", "test", "--json", str(tmp_path / "tests.yml"), str(tmp_path / "fine.yml")]
    )
    wrong, fine = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (wrong["ok"], wrong["checks"], fine["ok"], fine["failures"]) == (False, 10, True, [])
    assert [(one["about"], one["eval_time"]) for one in wrong["failures"]] == [
        ("Hot", "1m"),
        ("Hot", "3m30s"),
        ("Hot", "9m"),
        ("doubled", "1m30s"),
        ("doubled * 1e-9 + 123456789", "2m"),
        ('nothing{a="b"}', "1m"),
        ("1 / 0", "1m"),
    ]


@pytest.mark.parametrize(("fuzzy", "ok"), [("true", True), ("false", False)])
def test_the_last_bit_may_differ_where_the_file_says_so(tmp_path: Path, fuzzy: str, ok: bool) -> None:
    sum_of_two = "{expr: vector(0.1) + 0.2, exp_samples: [{labels: '{}', value: 0.3}]}"
    text = f"fuzzy_compare: {fuzzy}\ntests:\n- promql_expr_test:\n  - {sum_of_two}\n"
    assert run_test_file(written(tmp_path, t=text) / "t.yml").ok is ok


def test_a_test_may_begin_at_a_time_of_its_own(tmp_path: Path) -> None:
    text = """\
tests:
- start_timestamp: %s
  interval: 1m
  input_series: [{series: x, values: '1 2 3'}]
  promql_expr_test:
  - {expr: time() + x, eval_time: 1m, exp_samples: [{labels: '{}', value: 1609459262}]}
"""
    for moment in ("1609459200", "2021-01-01T00:00:00Z", "'2021-01-01T01:00:00+01:00'"):
        report = run_test_file(written(tmp_path, t=text % moment) / "t.yml")
        assert report.ok, report.failures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests:\n- input_serie: []\n", ":2:3: unknown setting 'tests[0].input_serie' (did you mean "),
        ("group_eval_order: [a, b, a]\n", ":1:26: group_eval_order[2]: group name repeated"),
        ("tests:\n- alert_rule_test: [{eval_time: 5m}]\n", "misses required attribute alertname"),
        ("tests:\n- start_timestamp: soon\n", "'soon' is not a time"),
        ("tests:\n- input_series: [{series: x, values: 1 two}]\n", "cannot read the values 'two'"),
        ("tests:\n- input_series: [{series: x, values: '{{sum:1}}'}]\n", "native histograms are not"),
        ("rule_files: [broken.yml]\n", "broken.yml:4:5: groups[0].rules[0]"),
        ("tests: [", "not valid YAML"),
    ],
    ids=["key", "order", "no alertname", "start", "values", "histogram", "rule file", "yaml"],
)  # fmt: skip
def test_a_file_that_cannot_be_run_says_why(tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, t=text, broken="groups:\n- name: g\n  rules:\n  - {record: x}\n")
    report = run_test_file(tmp_path / "t.yml")
    assert not report.ok
    assert message in report.failures[0].text
