"""Pictures of the docs: each that is named is there, small, and said in words; none lies unused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 200_000
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


class Named(NamedTuple):
    page: Path
    alt: str
    file: Path


def named() -> list[Named]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return [
        Named(page, alt, (page.parent / path).resolve())
        for page in pages
        for alt, path in PICTURE.findall(page.read_text(encoding="utf-8"))
    ]


def test_every_picture_that_a_page_names_is_there() -> None:
    assert {one.file for one in named()} == {*IMAGES.glob("*")}


def test_every_picture_says_in_words_what_it_shows() -> None:
    assert [one for one in named() if len(one.alt.split()) < 5] == []


def test_pictures_are_small() -> None:
    assert [one.name for one in IMAGES.glob("*") if one.stat().st_size > MOST_BYTES] == []
