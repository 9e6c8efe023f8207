"""The notes of a release: its section of CHANGELOG.md, as it is."""

from __future__ import annotations

import re
from typing import Final

_HEADING: Final = re.compile(r"^## (?P<name>\S+).*$", re.M)
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
UNRELEASED: Final = "Unreleased"


def versions(changelog: str) -> list[str]:
    """In the order of the file, newest first."""
    return [found["name"] for found in _HEADING.finditer(changelog)]


def notes(changelog: str, version: str) -> str:
    """Without its heading. Raises LookupError."""
    headings = list(_HEADING.finditer(changelog))
    for at, found in enumerate(headings):
        if found["name"] == version:
            end = headings[at + 1].start() if at + 1 < len(headings) else len(changelog)
            text = changelog[found.end() : end].strip("\n")
            if not text.strip():
                raise LookupError(f"CHANGELOG.md says nothing of {version}")
            return text + "\n"
    raise LookupError(f"CHANGELOG.md has no section {version}; it has {', '.join(versions(changelog))}")


def cut(changelog: str, version: str, day: str) -> str:
    """What was unreleased becomes this version; above it there is room for what comes next. Raises
    LookupError."""
    if not _VERSION.fullmatch(version):
        raise LookupError(f"{version!r} is no version, such as 1.3.0")
    if version in versions(changelog):
        raise LookupError(f"CHANGELOG.md has a section {version} already")
    notes(changelog, UNRELEASED)
    return changelog.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} - {day}\n", 1)
