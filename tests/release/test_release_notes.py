"""Release notes are a version's section of the changelog, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tools.release.notes import UNRELEASED, cut, notes, versions

CHANGELOG: Final = """\
# Changelog

All notable changes.

## Unreleased

### Added
- A second thing ([docs](docs/a.md)).

## 1.0.0 - 2026-11-16

### Added
- The first thing,
  in two lines.

### Changed
- ## is no heading within a line.

## 0.9.0 - 2026-10-01

- All of it.
"""


def test_the_section_of_a_version() -> None:
    assert versions(CHANGELOG) == [UNRELEASED, "1.0.0", "0.9.0"]
    assert notes(CHANGELOG, "1.0.0") == (
        "### Added\n- The first thing,\n  in two lines.\n\n### Changed\n- ## is no heading within a line.\n"
    )
    assert notes(CHANGELOG, "0.9.0") == "- All of it.\n"


@pytest.mark.parametrize("version", ["1.0", "2.0.0", "1.0.0 - 2026-11-16"])
def test_a_version_that_is_not_there(version: str) -> None:
    with pytest.raises(LookupError, match=r"it has Unreleased, 1\.0\.0, 0\.9\.0"):
        notes(CHANGELOG, version)


def test_what_is_unreleased_becomes_a_version() -> None:
    after = cut(CHANGELOG, "1.1.0", "2026-12-01")
    assert versions(after) == [UNRELEASED, "1.1.0", "1.0.0", "0.9.0"]
    assert "\n## 1.1.0 - 2026-12-01\n" in after
    assert notes(after, "1.1.0") == notes(CHANGELOG, UNRELEASED)
    assert notes(after, "1.0.0") == notes(CHANGELOG, "1.0.0")


def test_nothing_is_cut_twice_or_empty() -> None:
    with pytest.raises(LookupError, match="already"):
        cut(CHANGELOG, "1.0.0", "2026-12-01")
    with pytest.raises(LookupError, match="says nothing of Unreleased"):
        cut(cut(CHANGELOG, "1.1.0", "2026-12-01"), "1.2.0", "2026-12-02")


def test_the_changelog_has_notes_for_what_comes_next() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert versions(text)[0] == UNRELEASED
    assert notes(text, versions(text)[-1])


@pytest.mark.parametrize("version", ["abc", "1.0", "v1.1.0"])
def test_what_is_no_version_is_not_cut(version: str) -> None:
    with pytest.raises(LookupError, match="is no version, such as"):
        cut(CHANGELOG, version, "2026-12-01")
