"""docs/sdk.md names what is recorded of runs, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from recording_rules import shipped_rules

PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text(encoding="utf-8")
INNER = re.compile(r"trilens:training_(pod|run|scraped):info")  # steps on the way, told by no page


def test_every_record_is_named_and_nothing_else() -> None:
    named = set(re.findall(r"trilens:training_\w+:\w+", PAGE))
    assert named == {
        rule.record for rule in shipped_rules("training.yml") if not INNER.fullmatch(rule.record)
    }


def test_every_metric_that_the_rules_read_is_one_of_the_sdk() -> None:
    pages = PAGE + (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(\w+)(?:\{\w+\})?` \|", pages, re.MULTILINE)) | {"training_validation_loss"}
    read = {
        name
        for rule in shipped_rules("training.yml")
        for name in re.findall(r"(?<![:\w])(?:training_|trilens_(?!workload|run_))\w+", rule.expr)
    }
    assert len(read) > 15
    assert read - told == set()
