"""docs/workloads.md names every operator's kinds, every doubt and every phase."""

from __future__ import annotations

import re
from pathlib import Path

from trilens.model.life import Phase
from trilens.resolve.info import GPU_INFO, POD_INFO
from trilens.resolve.operators import BY_KIND, MEANS_MANY
from trilens.resolve.phase_metrics import PHASE, PHASE_SECONDS

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")


def test_every_kind_is_documented() -> None:
    for group, kind in BY_KIND:
        assert f"`{kind}" in DOCS, f"{kind} is missing"
        assert not group or f"{group}`" in DOCS, f"the group of {kind} is missing"


def test_every_owner_that_means_many_is_documented() -> None:
    below = DOCS.split("## From pods upward")[1]
    for _, kind in MEANS_MANY:
        assert kind in ("Node", "Namespace", "Suggestion") or kind in below, f"{kind} is missing"


def test_every_doubt_is_documented() -> None:
    used = set()
    for source in (ROOT / "src" / "trilens" / "resolve").rglob("*.py"):
        if source.parent.name == "gpus":
            continue  # on a page of their own
        used |= set(re.findall(r'Doubt\(\s*"([a-z-]+)"', source.read_text(encoding="utf-8")))
    documented = set(
        re.findall(r"^\| `([a-z-]+)` \|", DOCS.split("## Doubts")[1].split("## ")[0], re.MULTILINE)
    )
    assert used == documented


def test_every_phase_and_metric_is_documented() -> None:
    for phase in Phase:
        assert f"`{phase}`" in DOCS
    for metric in (POD_INFO, GPU_INFO, PHASE, PHASE_SECONDS):
        assert f"`{metric}" in DOCS
