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

from trilens.alert.slo.file import read_slo_file
from trilens.settings.load import load_settings
from trilens.settings.tree import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```[\s\S]*?^```|^(?: {4}|\t).*$|`+[^`\n]+`+", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: \{ #([\w-]+) \})?$", re.MULTILINE)
TYPED = re.compile(
    r"(?:^(?: {4}|\$ )+(?:\.venv/bin/|kubectl )?|`)trilens ((?:[a-z]|--)[^`\n]*)", re.MULTILINE
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
YAML = re.compile(r"^```yaml\n([\s\S]*?)^```", re.MULTILINE)
slug = slugify(case="lower")


class _Loader(yaml.SafeLoader):
    """As mkdocs reads its file, but for what only it can make."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    written = {file.relative_to(DOCS).as_posix(): file.read_text("utf-8") for file in DOCS.rglob("*.md")}
    return {**written, **{path: make() for path, make in PAGES.items()}}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """What was written by hand."""
    files = [*DOCS.rglob("*.md"), ROOT / "README.md"]
    return {
        file.relative_to(DOCS if DOCS in file.parents else ROOT).as_posix(): file.read_text("utf-8")
        for file in files
    }


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
            if page not in anchors and page not in files and not (DOCS / page).is_file():
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


def test_what_people_are_to_type_exists(texts: dict[str, str]) -> None:
    known = dict(commands())
    wrong = []
    for path, text in texts.items():
        for typed in TYPED.findall(text):
            words = re.split(r"\s+#|\s[|>]\s|\s--\s", typed)[0].split()
            name = "trilens"
            while words and f"{name} {words[0]}" in known:
                name = f"{name} {words.pop(0)}"
            # What follows `fix` is a name: it proposes.
            named = [known[name], *([known["trilens fix propose"]] if name == "trilens fix" else [])]
            options = {"--help", *(one for each in named for param in each.params for one in written(param))}
            if (name == "trilens" and not words[0].startswith("-")) or {
                *OPTION.findall(" ".join(words))
            } - options:
                wrong.append(f"{path}: trilens {typed}")
    assert wrong == []


def written(param: Any) -> list[str]:
    return [*param.opts, *param.secondary_opts]


def test_the_readme_names_every_command_and_leads_to_pages(pages: dict[str, str]) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| **Command line**"))
    named = set(re.findall(r"`([a-z]+)[^`]*`", row))
    assert [
        one
        for name, _ in commands()
        if (one := name.split()[-1]) and name.count(" ") == 1 and one not in named
    ] == []
    for link in LINK.findall(CODE.sub("", text)):
        target, _, anchor = link.partition("#")
        assert not target or link.startswith("http") or (ROOT / target).exists(), link
        own = text if not target else pages.get(target.removeprefix("docs/"), "")
        assert not anchor or anchor in anchors_of(own), link


def test_settings_that_pages_show_are_accepted(
    texts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.yaml").write_text("prices: []\n")
    for secret in ("PAGERDUTY_KEY", "BOT_TOKEN"):
        monkeypatch.setenv(secret, "x")
    shown = 0
    for path, text in texts.items():
        if path == "remote-write.md":
            continue  # what the sender has, a Prometheus
        for block in YAML.findall(text):
            section = next(yaml.safe_load_all(block))
            file = tmp_path / f"{path.replace('/', '-')}-{shown}.yaml"
            file.write_text(block)
            if isinstance(section, dict) and set(section) <= set(Settings.model_fields):
                assert load_settings(file, environ={}) is not None
                shown += 1
            elif isinstance(section, dict) and [*section] == ["slos"]:
                assert read_slo_file(file)
                shown += 1
    assert shown > 20


def test_every_word_of_the_first_minutes_is_explained() -> None:
    words = re.findall(r"^\| ([^|]+) \|", (DOCS / "concepts.md").read_text("utf-8"), re.MULTILINE)
    told = {one.strip() for cell in words for one in re.split(r",|\(|\)| of ", cell)}
    wanted = {"workload", "run", "rank", "step", "phase", "bucket", "ledger", "budget", "finding", "incident"}
    assert (wanted | {"verdict", "lineage", "SLO"}) - told == set()


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
