"""The site: every page is in its navigation, every link leads somewhere, what people are to type exists."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pymdownx.slugs import slugify
from tools.docs.commands import commands
from tools.docs.hooks import PAGES
from tools.docs.linked_files import linked_files, with_links_inside
from tools.docs.navigation import expanded
from tools.docs.outside import outside_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```[\s\S]*?^```|^(?: {4}|\t).*$|`+[^`\n]+`+", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: \{ #([\w-]+) \})?$", re.MULTILINE)
slug = slugify(case="lower")


class _Loader(yaml.SafeLoader):
    """As mkdocs reads its file, but for what only it can make."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    written = {file.relative_to(DOCS).as_posix(): file.read_text("utf-8") for file in DOCS.rglob("*.md")}
    return {**written, **{path: make() for path, make in PAGES.items()}}


def in_nav(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from in_nav(inner)


def test_every_page_is_in_the_navigation_once(pages: dict[str, str]) -> None:
    site = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)
    assert sorted(in_nav(expanded(site["nav"], DOCS))) == sorted(pages), "add it to nav in mkdocs.yml"


def test_every_link_leads_to_a_page_and_a_heading_of_it(pages: dict[str, str]) -> None:
    anchors = {path: anchors_of(text) for path, text in pages.items()}
    files = set(linked_files(DOCS, ROOT))
    broken = []
    for path, text in pages.items():
        for link in LINK.findall(CODE.sub("", with_links_inside(text, path))):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            page = normal(PurePosixPath(path).parent / target) if target else path
            if page not in anchors and page not in files:
                broken.append(f"{path}: {link}")
            elif anchor and anchor not in anchors.get(page, ()):
                broken.append(f"{path}: {link} (no such heading)")
    assert broken == []


def normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def anchors_of(text: str) -> set[str]:
    found = set(re.findall(r'<a id="([^"]+)">', text))
    bare = re.sub(r"^```[\s\S]*?^```", "", text, flags=re.MULTILINE)
    for _, title, own in HEADING.findall(bare):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("\\", "")
        found.add(own or slug(plain, "-"))
    return found


def test_commands_of_the_first_minutes_exist() -> None:
    known = {name for name, _ in commands()}
    for file in [DOCS / "index.md", *(DOCS / "start").glob("*.md"), DOCS / "concepts.md"]:
        text = file.read_text("utf-8")
        typed = re.findall(r"(?:^ {4}(?:\.venv/bin/|kubectl )?|`)trilens ([a-z]+)", text, re.MULTILINE)
        assert [one for one in typed if f"trilens {one}" not in known] == [], file.name


@pytest.mark.parametrize("file", sorted((DOCS / "start").glob("*.md")), ids=lambda file: file.stem)
def test_settings_of_the_first_minutes_are_accepted(file: Path, tmp_path: Path) -> None:
    from trilens.settings.load import load_settings

    for number, text in enumerate(re.findall(r"```yaml\n([\s\S]*?)```", file.read_text("utf-8"))):
        if "slos:" in text:
            continue
        (tmp_path / "prices.yaml").write_text("prices: []\n")
        written = tmp_path / f"{number}.yaml"
        written.write_text(text)
        assert load_settings(written, environ={}) is not None


def test_every_table_is_shown_as_one(pages: dict[str, str]) -> None:
    """GitHub takes one right after a line of text for a table; Python-Markdown does not."""
    without_an_empty_line = [
        f"{path}: {before}"
        for path, text in pages.items()
        for before in re.findall(r"^(.+)\n\|.*\|\n\| ?---", re.sub(CODE, "", text), re.MULTILINE)
    ]
    assert without_an_empty_line == []


def test_what_a_page_would_fetch_from_outside_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="canonical" href="https://a.example/"><a href="https://b.example/">read</a>'
        '<script src="//c.example/x.js"></script><img src="logo.png"><p style="background: url(http://d.example/)">'
    )
    (tmp_path / "b.css").write_text("@import 'https://e.example/font.css'; a { background: url(x.png) }")
    found = outside_hosts(tmp_path)
    assert found == [
        "a.html: //c.example/x.js",
        "a.html: http://d.example/",
        "b.css: https://e.example/font.css",
    ]
