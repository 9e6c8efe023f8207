"""docs/gpus.md names every source, doubt, metric and annotation."""

from __future__ import annotations

import re
from pathlib import Path

from trilens.model.gpu import HELD_BEFORE_SEEN, ClaimSource
from trilens.resolve.gpus import annotations
from trilens.serve.gpu_bindings import FAMILIES

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "gpus.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> set[str]:
    return set(
        re.findall(r"^\| `([a-z_-]+)` \|", DOCS.split(f"## {heading}\n")[1].split("\n## ")[0], re.MULTILINE)
    )


def test_every_source_is_documented_in_its_order() -> None:
    order = re.findall(r"^\| `([a-z]+)` \|", DOCS.split("## Shares")[0], re.MULTILINE)
    assert order == [source.value for source in ClaimSource]


def test_every_doubt_is_documented() -> None:
    used = {HELD_BEFORE_SEEN}  # whose name the ledger knows, too
    for source in (ROOT / "src" / "trilens" / "resolve" / "gpus").glob("*.py"):
        used |= set(re.findall(r'Doubt\(\s*"([a-z-]+)"', source.read_text(encoding="utf-8")))
    assert used == first_cells("Doubts")


def test_every_metric_and_annotation_is_documented() -> None:
    assert {family.metric for family in FAMILIES} == first_cells("As metrics")
    written = Path(annotations.__file__).read_text(encoding="utf-8")
    keys = set(re.findall(r'"([A-Za-z.]+/[a-z-]+|ALIYUN\w+|runai-gpu-group)', written))
    assert len(keys) > 6
    assert [key for key in keys if key not in DOCS] == []
