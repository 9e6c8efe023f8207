"""The rule pack: Prometheus rule files, as data. Trilens and any Prometheus evaluate the same files."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def rule_files() -> tuple[Traversable, ...]:
    """By name. They may lie inside an archive: use `read_text`, or `importlib.resources.as_file`."""
    found = (entry for entry in files(__name__).iterdir() if entry.name.endswith(".yml"))
    return tuple(sorted(found, key=lambda entry: entry.name))


def files_for_others() -> tuple[Traversable, ...]:
    """What only another server can say of Trilens: written out with the pack, and not evaluated here."""
    folder = files(__name__) / "elsewhere"
    return tuple(sorted(folder.iterdir(), key=lambda entry: entry.name))
