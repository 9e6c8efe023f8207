"""docs/lineage.md names every state and every doubt, and its figures are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from trilens.lineage import pace, spikes
from trilens.lineage.standing import RunState

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "lineage.md").read_text(encoding="utf-8")


def test_every_doubt_is_documented() -> None:
    used = set()
    for source in (ROOT / "src" / "trilens" / "lineage").glob("*.py"):
        used |= set(re.findall(r'Doubt\(\s*"([a-z-]+)"', source.read_text(encoding="utf-8")))
    table = DOCS.split("## Doubts")[1].split("## ")[0]
    assert used == set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))


def test_every_state_is_documented() -> None:
    for state in RunState:
        assert f"| `{state}` |" in DOCS


def test_the_figures_are_those_of_the_code() -> None:
    assert f"the last {pace.LOOKS_BACK} steps" in DOCS
    assert f"the {spikes.TRAILING} points before it" in DOCS
    assert (spikes.THRESHOLD, spikes.FEWEST) == (6.0, 8)
