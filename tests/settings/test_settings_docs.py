"""docs/settings.md says what the code says."""

from __future__ import annotations

from pathlib import Path

from trilens.settings.document import render
from trilens.settings.tree import leaves

DOCS = Path(__file__).parents[2] / "docs"


def test_every_setting_is_documented_as_declared() -> None:
    written = (DOCS / "settings.md").read_text(encoding="utf-8")
    for leaf in leaves():
        assert f"| `{leaf.path}` |" in written, f"{leaf.path} is missing"
        assert leaf.field.description, f"{leaf.path} has no description"
    assert written == render(), "run: python -m trilens.settings.document > docs/settings.md"
