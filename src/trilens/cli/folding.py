"""Long lists made short: those that are alike become one row, and what is left out is counted."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Group = list[dict[str, Any]]

WHOLE: Final = 20  # so many rows are read at a glance
_FEW: Final = 3  # so few that differ from the rest are what one looks for: they stay


def fold(found: Group, alike: Callable[[dict[str, Any]], object], *, every: bool) -> tuple[list[Group], int]:
    """Groups that make a row each, and how many of earlier attempts are left out."""
    if every:
        return [[one] for one in found], 0
    last = max((one["attempt"] for one in found), default=0)
    kept = [one for one in found if one["attempt"] == last]
    return rows_of(kept, alike), len(found) - len(kept)


def rows_of(found: Group, alike: Callable[[dict[str, Any]], object]) -> list[Group]:
    """A row for each, or where there are many, one for those that are alike."""
    if len(found) <= WHOLE:
        return [[one] for one in found]
    by_likeness: dict[object, Group] = {}
    for one in found:
        by_likeness.setdefault(alike(one), []).append(one)
    groups: list[Group] = []
    for group in by_likeness.values():
        groups += [group] if len(group) > _FEW else [[one] for one in group]
    return groups


def say_left_out(count: int, what: str) -> None:
    if count:
        typer.echo(f"and {count} {what}; --all shows each")


def ranges(numbers: Iterable[int | None]) -> str:
    """Such as 0-3, 5, 7-9; a dash where none is known."""
    known = sorted({number for number in numbers if number is not None})
    if not known:
        return "-"
    breaks = [(before, after) for before, after in pairwise(known) if after != before + 1]
    starts = [known[0], *(after for _, after in breaks)]
    ends = [*(before for before, _ in breaks), known[-1]]
    return ", ".join(
        str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True)
    )


def one_or_count(values: Iterable[str | None], noun: str) -> str:
    """The one value that all have, or how many there are."""
    found = dict.fromkeys(value for value in values if value is not None)
    if not found:
        return "-"
    return next(iter(found)) if len(found) == 1 else f"{len(found)} {noun}"
