"""The table of docs/gpu-metrics.md names what the rules record, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from recording_rules import shipped_rules

PAGE = Path(__file__).parents[2] / "docs" / "gpu-metrics.md"
# Steps on the way, told by no page: they may change with any version.
INNER = {
    "trilens:gpu_reported:info",
    "trilens:workload_pod:info",
    "trilens:workload_gpu:info",
    "trilens:gpu_holder:info",
    "trilens:gpu_identity:info",
}


def test_the_page_names_every_record_and_nothing_else() -> None:
    named = set(re.findall(r"trilens:\w+:\w+", PAGE.read_text()))
    assert named == {rule.record for rule in shipped_rules("gpu.yml")} - INNER


def test_the_page_names_every_field_that_the_rules_read() -> None:
    text = PAGE.read_text()
    read = {field for rule in shipped_rules("gpu.yml") for field in re.findall(r"\bDCGM_FI_(\w+)", rule.expr)}
    told = re.compile("|".join(re.findall(r"`((?:DEV|PROF)_[\w*]+)`", text)).replace("*", r"\w+"))
    assert read
    assert {field for field in read if not told.fullmatch(field)} <= {"DEV_"}  # a pattern over names
