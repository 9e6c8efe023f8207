"""Small words of verdicts on dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


def has(ranks: Collection[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def waits(ranks: Collection[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def span(ms: float) -> str:
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
