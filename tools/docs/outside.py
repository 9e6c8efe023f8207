"""What a page would fetch from another host: scripts, styles, images and fonts, but no link to click."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_FETCHED: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_HARMLESS: Final = frozenset({"canonical", "prev", "next"})
_OUTSIDE: Final = re.compile(r"(?:https?:)?//", re.IGNORECASE)
_IN_STYLE: Final = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


def outside_hosts(site: Path) -> list[str]:
    """Each as FILE: ADDRESS."""
    found = []
    for file in sorted(site.rglob("*")):
        if file.suffix == ".html":
            reader = _Page()
            reader.feed(file.read_text(encoding="utf-8"))
            found += [f"{file.relative_to(site)}: {one}" for one in reader.outside]
        elif file.suffix == ".css":
            every = _IN_STYLE.findall(file.read_text(encoding="utf-8"))
            found += [f"{file.relative_to(site)}: {one}" for one in every]
    return found


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        address = told.get(_FETCHED.get(tag, "")) or ""
        if _OUTSIDE.match(address) and told.get("rel") not in _HARMLESS:
            self.outside.append(address)
        self.outside += _IN_STYLE.findall(told.get("style") or "")
