"""What only another server can say of Trilens: written out with the pack, never evaluated here."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from servers import require_server
from trilens.alert.rule_tests.run import run_test_file
from trilens.rules import files_for_others
from trilens.serve.rules import rule_groups
from trilens.settings.load import validate

TESTS: Final = Path(__file__).parent / "elsewhere" / "tests.yml"
DOCS: Final = Path(__file__).parents[2] / "docs"


def test_promtool_and_our_runner_agree() -> None:
    done = subprocess.run(
        [require_server("promtool"), "test", "rules", TESTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = run_test_file(TESTS)
    assert report.checks
    assert not report.failures, "\n".join(failure.text for failure in report.failures)


def test_trilens_does_not_evaluate_them() -> None:
    """One that is down says nothing, and one that runs would miss its own target."""
    evaluated = {group.name for group in rule_groups(validate({}))}
    assert "trilens-alerts-trilens" in evaluated
    assert not evaluated & {group["name"] for group in _groups()}


@pytest.mark.parametrize(
    "name", ["TrilensDown", "TrilensNobodyLeads", "TrilensStandbyGone", "TrilensWatchdog"]
)
def test_each_has_its_section(name: str) -> None:
    (rule,) = [rule for group in _groups() for rule in group["rules"] if rule["alert"] == name]
    page, _, anchor = rule["annotations"]["runbook"].removeprefix("docs/").partition("#")
    assert anchor == name.lower()
    assert f"\n### {name}\n" in (DOCS / page).read_text(encoding="utf-8")


def _groups() -> list[dict[str, list[dict[str, dict[str, str]]]]]:
    return [
        group
        for entry in files_for_others()
        for group in yaml.safe_load(entry.read_text(encoding="utf-8"))["groups"]
    ]
