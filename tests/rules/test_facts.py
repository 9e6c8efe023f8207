"""What exporters really say, fact by fact: promtool's rule tests, run by promtool and by our own runner."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from servers import require_server
from trilens.alert.rule_tests.run import run_test_file
from trilens.rules import rule_files

FACTS = sorted((Path(__file__).parent / "facts").glob("*.yml"))


def promtool(*arguments: str | Path) -> str:
    """What it says when it is content; its complaint fails the test. One start for all files: each costs."""
    done = subprocess.run(
        [require_server("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules() -> None:
    files = [str(file) for file in rule_files()]
    assert promtool("check", "rules", *files).count("SUCCESS") == len(files) > 0


def test_promtool_sees_every_fact() -> None:
    assert promtool("test", "rules", *FACTS).count("SUCCESS") == len(FACTS) > 0


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.stem)
def test_our_engine_sees_the_fact(fact: Path) -> None:
    report = run_test_file(fact)
    assert not report.failures, "\n".join(failure.text for failure in report.failures)
    assert report.checks
