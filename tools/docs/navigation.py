"""The navigation of the site: where a folder is named in it, all of its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def expanded(part: Any, docs: Path) -> Any:
    """`FOLDER/*` in a list stands for the pages of that folder, by their names."""
    if isinstance(part, dict):
        return {title: expanded(inner, docs) for title, inner in part.items()}
    if not isinstance(part, list):
        return part
    found: list[Any] = []
    for one in part:
        if isinstance(one, str) and one.endswith("/*"):
            found += sorted(file.relative_to(docs).as_posix() for file in docs.glob(f"{one}.md"))
        else:
            found.append(expanded(one, docs))
    return found
