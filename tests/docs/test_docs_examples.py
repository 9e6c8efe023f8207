"""Every example of settings in the documentation is read as the server would read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from trilens.settings.load import load_settings
from trilens.settings.tree import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parents[2]


def examples() -> Iterator[tuple[str, str]]:
    """Of fenced YAML what is settings of Trilens: that of a Prometheus has lists where Trilens has groups."""
    for page in [*sorted((HERE / "docs").glob("*.md")), HERE / "README.md"]:
        for text in re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            tree = next(yaml.safe_load_all(text))
            is_ours = isinstance(tree, dict) and tree.keys() <= Settings.model_fields.keys()
            if is_ours and not isinstance(tree.get("remote_write"), list):
                yield page.name, text


EXAMPLES = [*examples()]


def test_they_are_found() -> None:
    assert len(EXAMPLES) > 25


@pytest.mark.parametrize(("page", "text"), EXAMPLES, ids=[page for page, _ in EXAMPLES])
def test_an_example_is_read(page: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trilens.yaml"
    file.write_text(text)
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "x")
    assert load_settings(file, environ={}), page
