"""Objectives for services: the file, the rules that are made of it, and what these say of samples."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import re2
import yaml

from command_here import trilens_here
from servers import require_server
from trilens.alert.rule_tests.run import run_test_file
from trilens.alert.slo.bounds import at_most
from trilens.alert.slo.burning import FAST, SLOW
from trilens.alert.slo.file import read_slo_file
from trilens.alert.slo.rules import slo_rules, slo_warnings
from trilens.model.errors import ConfigError
from trilens.serve.rules import readable_rules, rule_groups
from trilens.settings.load import load_settings

EXAMPLES = Path(__file__).parents[1] / "rules" / "slo"
DOCS = Path(__file__).parents[2] / "docs"
GOOD = "slos:\n- {name: a, service: {workload: chat}, indicator: latency, threshold: 2s, objective: 99}\n"
BOUNDS = """
0 0.001 0.005 0.05 0.1 0.2 0.25 0.29999 0.3 0.30 0.300 0.31 0.5 0.75 1 1.0 1.5 2 2.0 2.5 7.5 9.99 10 10.0 12.5
19 25 99 100 101 120.0 250 300 1000 1e-05 2.5e-07 0.00022500000000000002
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test file beside the rules that it is about."""
    folder = tmp_path_factory.mktemp("slo")
    objectives = read_slo_file(EXAMPLES / "objectives.yml")
    (folder / "rules.yml").write_text(slo_rules(objectives, "objectives.yml"), encoding="utf-8")
    return Path(shutil.copy(EXAMPLES / "burning.yml", folder))


def test_promtool_sees_budgets_burn(made: Path) -> None:
    done = subprocess.run(
        [require_server("promtool"), "test", "rules", made], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_our_engine_sees_budgets_burn(made: Path) -> None:
    report = run_test_file(made)
    assert report.ok, "\n".join(failure.text for failure in report.failures)
    assert report.checks == 10


def test_bounds_are_compared_as_numbers() -> None:
    bounds = BOUNDS.split()
    for limit in ("0.001", "0.3", "0.25", "1", "2", "2.5", "10", "12", "100", "0.75", "300", "120"):
        pattern = at_most(Decimal(limit))
        within = {bound for bound in bounds if re2.fullmatch(pattern, bound)}
        assert within == {bound for bound in bounds if Decimal(bound) <= Decimal(limit)}, limit
        assert not re2.fullmatch(pattern, "+Inf")


def test_paces_are_those_of_the_workbook() -> None:
    month = timedelta(days=30)
    assert [(str(pace.factor(month)), pace.long, pace.short) for pace in (*FAST, *SLOW)] == [
        ("14.4", timedelta(hours=1), timedelta(minutes=5)),
        ("6", timedelta(hours=6), timedelta(minutes=30)),
        ("3", timedelta(days=1), timedelta(hours=2)),
        ("1", timedelta(days=3), timedelta(hours=6)),
    ]


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", 0, "there are no objectives"),
        (GOOD.replace("objective: 99", "objektive: 99"), 2, "did you mean 'objective'?"),
        (GOOD.replace("objective: 99", "objective: 100"), 2, "from 50 to below 100"),
        (GOOD.replace("objective: 99", "objective: a lot"), 2, "objective"),
        (GOOD.replace("threshold: 2s, ", ""), 2, "needs a `threshold`"),
        (GOOD.replace("threshold: 2s", "threshold: 2"), 2, "threshold"),
        (GOOD.replace("latency", "errors"), 2, "the indicator errors has none"),
        (GOOD.replace("latency", "speed"), 2, "indicator"),
        (GOOD.replace("workload", "wrkload"), 2, "did you mean 'workload'?"),
        (GOOD.replace("{workload: chat}", "{}"), 2, "names no service"),
        (GOOD.replace("{workload: chat}", "{proxy: nginx}"), 2, "is not told by proxy"),
        (GOOD.replace("objective: 99", "objective: 99, window: 1d"), 2, "must be 1w to 90d"),
        (GOOD.replace("objective: 99", "objective: 99, labels: {severity: x}"), 2, "may set"),
        (GOOD + GOOD.partition("\n")[2], 3, "there is another objective 'a'"),
        ("slos:\n- name: a\n", 2, "is missing"),
    ],
    ids=lambda value: (
        value.strip("'?`").replace(" ", "-") if isinstance(value, str) and "\n" not in value else ""
    ),
)
def test_a_bad_file_is_refused_with_the_line(text: str, line: int, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "slo.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read_slo_file(file)
    assert complaint in str(refused.value) + str(getattr(refused.value, "hint", ""))
    assert (refused.value.where or "").startswith(f"{file}:{line}:" if line else str(file))


def test_paces_that_cannot_be_are_left_out_and_said(tmp_path: Path) -> None:
    file = tmp_path / "slo.yml"
    file.write_text(
        GOOD.replace("99", "90")
        + GOOD.partition("\n")[2].replace("name: a", "name: week, window: 7d")
        + GOOD.partition("\n")[2].replace("name: a", "name: low, window: 90d").replace("99", "50"),
        encoding="utf-8",
    )
    objectives = read_slo_file(file)
    said = list(slo_warnings(objectives))
    assert [text.partition(":")[0] for text in said] == ["a", "week", "week", "low"]
    assert "144% of all had to be bad" in said[0]
    rules = slo_rules(objectives, "slo.yml")
    assert 'window="1h"' not in rules.partition("trilens-slo-week")[0]
    assert "> 3.36" in rules


def test_a_server_evaluates_objectives(tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.yml").write_text(GOOD.replace("99", "0"), encoding="utf-8")
    config = tmp_path / "trilens.yaml"
    config.write_text("rules: {builtin: false, slo_files: [good.yml]}", encoding="utf-8")
    groups = rule_groups(load_settings(config, environ={}))
    assert [(group.name, group.interval_ms) for group in groups] == [
        ("trilens-slo-a", 30_000),
        ("trilens-slo-slow-a", 180_000),
    ]
    assert {group.file for group in groups} == {str(tmp_path / "good.yml")}
    config.write_text("rules: {builtin: false, slo_files: ['*.yml']}", encoding="utf-8")
    found, troubles = readable_rules(load_settings(config, environ={}))
    assert len(found) == 2
    assert [trouble.where for trouble in troubles] == [f"{tmp_path / 'bad.yml'}:2:75"]


def test_the_command(tmp_path: Path) -> None:
    file, out = tmp_path / "slo.yml", tmp_path / "rules.yml"
    file.write_text(GOOD, encoding="utf-8")
    assert trilens_here("rules", "slo", str(file), "--check").stdout == f"{file}: fine, 1 objective\n"
    assert trilens_here("rules", "slo", str(file), "-o", str(out)).stdout == f"{out}\n"
    assert trilens_here("rules", "slo", str(file)).stdout == out.read_text(encoding="utf-8")
    file.write_text(GOOD.replace("99", "0"), encoding="utf-8")
    refused = trilens_here("rules", "slo", str(file), "-o", str(out))
    assert refused.returncode == 2
    assert f"{file}:2:75" in refused.stderr


def test_the_page_names_what_is_made() -> None:
    page = (DOCS / "slo.md").read_text(encoding="utf-8")
    rules = yaml.safe_load(slo_rules(read_slo_file(EXAMPLES / "objectives.yml"), "x"))
    every = [rule for group in rules["groups"] for rule in group["rules"]]
    recorded = {rule["record"] for rule in every if "record" in rule and not rule["record"].endswith(":sum")}
    assert set(re.findall(r"`(trilens:slo_\w+:\w+)`", page)) == recorded
    alerts = {rule["alert"] for rule in every if "alert" in rule}
    assert set(re.findall(r"^### (Slo\w+)$", page, re.MULTILINE)) == alerts
