"""docs/why.md names every cause of these trees, with its layer and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilens.diagnose.tree import all_trees

_DOCS = (Path(__file__).parents[2] / "docs" / "why.md").read_text()


@pytest.mark.parametrize(
    "name",
    ["start", "pending", "no-gpu", "blind", "hang", "slower", "not-learning", "checkpoints", "service"],
)
def test_the_docs_have_every_question_and_every_cause(name: str) -> None:
    tree = all_trees()[name]
    assert f"### {tree.title}\n" in _DOCS
    for question in tree.questions.values():
        assert f"| {question.text} |" in _DOCS
    for end in tree.ends.values():
        assert f"| `{end.cause}` | {end.layer} | {end.text} |\n" in _DOCS
