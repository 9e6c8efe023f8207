"""What a night follows from: whether one that is kept can be laid, and whether it would come out the same."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.serve.rehearsal.night_cluster import SCENARIO
from trilens.store.migrations import MIGRATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORMAT: Final = 2  # of the files
_PACKAGES: Final = (
    "alert", "collect", "detect", "ledger", "lineage", "model", "promql", "resolve", "rules", "serve",
    "settings", "simulate", "store",
)  # fmt: skip
_SHOWING: Final = ("serve/pages", "serve/web_app.py")  # what is there, and nothing that a night has
_KINDS: Final = (".py", ".yml", ".yaml")
_TRILENS: Final = Path(__file__).parents[2]


def night_key(seed: int) -> str:
    """One of another key cannot be laid, or its cluster would go on as another one."""
    scenario = _TRILENS / "simulate" / "scenarios" / f"{SCENARIO}.yaml"
    return f"{_FORMAT}-{MIGRATIONS[-1].version}-{_digest([scenario])}-{seed}"


@cache
def made_by() -> str:
    """Of another digest, something else may have been found in it."""
    return _digest(sources())


def sources() -> list[Path]:
    files = (file for name in _PACKAGES for file in (_TRILENS / name).rglob("*") if file.suffix in _KINDS)
    showing = tuple(_TRILENS / name for name in _SHOWING)
    return sorted(file for file in files if not any(file.is_relative_to(one) for one in showing))


def _digest(files: Iterable[Path]) -> str:
    found = hashlib.blake2b(digest_size=6)
    for file in files:
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()
