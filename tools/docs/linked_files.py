"""Files of the repository that pages link to: examples and manifests, which are put beside the pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_LINK: Final = re.compile(r"\]\((?:\.\./)+((?:examples|deploy)/[^)#\s]+)\)")
_FOLDER: Final = "files"


def linked_files(docs: Path, root: Path) -> dict[str, Path]:
    """By their places in the site. One that does not exist is left out: its link is then broken."""
    texts = [page.read_text(encoding="utf-8") for page in sorted(docs.rglob("*.md"))]
    named = {found for text in texts for found in _LINK.findall(text)}
    return {f"{_FOLDER}/{one}": root / one for one in sorted(named) if (root / one).is_file()}


def with_links_inside(markdown: str, page: str) -> str:
    """Links out of the docs, to where these files are in the site; `page` is the place of this one."""
    up = "../" * page.count("/")
    return _LINK.sub(rf"]({up}{_FOLDER}/\1)", markdown)
