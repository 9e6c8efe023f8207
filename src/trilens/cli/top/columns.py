"""Columns of a table that fits the screen: what is least missed goes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Of = TypeVar("Of")
GAP: Final = 1


@dataclass(frozen=True, slots=True)
class Column(Generic[Of]):
    """`style` is of one cell. `grows` takes what is left of the line, up to `most`; `missed` says how much
    it is: the least goes first, and one of 0 never does."""

    title: str
    width: int
    cell: Callable[[Of], str]
    sorts: Callable[[Of], Any]
    style: Callable[[Of], str] | None = None
    right: bool = False
    grows: bool = False
    most: int = 48
    missed: int = 0
    keeps_end: bool = False  # of a curve the newest is shown
    descends: bool = False  # the largest first is what one looks for


@dataclass(frozen=True, slots=True)
class Placed(Generic[Of]):
    column: Column[Of]
    width: int

    def text(self, one: Of) -> str:
        text = self.column.cell(one)
        if self.column.keeps_end:
            text = text[-self.width :]
        return _fitted(text, self.width, right=self.column.right)

    def title(self, mark: str = "") -> str:
        return _fitted(f"{self.column.title}{mark}", self.width, right=self.column.right)


def placed(columns: Sequence[Column[Of]], room: int) -> list[Placed[Of]]:
    kept = list(columns)
    while _total(kept) > room and (may_go := [one for one in kept if one.missed]):
        kept.remove(min(may_go, key=lambda one: one.missed))
    left = max(0, room - _total(kept))
    widths = []
    for one in kept:
        more = min(left, one.most - one.width) if one.grows else 0
        left -= more
        widths.append(Placed(one, one.width + more))
    return widths


def whole(columns: Sequence[Column[Of]], rows: Sequence[Of]) -> list[Placed[Of]]:
    """Every column, as wide as its cells are: for a pipe, where nothing is cut."""
    return [
        Placed(one, max(cell_len(one.title), *(cell_len(one.cell(row)) for row in rows), 1))
        for one in columns
    ]


def _total(columns: Sequence[Column[Of]]) -> int:
    return sum(one.width for one in columns) + GAP * (len(columns) - 1)


def _fitted(text: str, width: int, *, right: bool) -> str:
    length = cell_len(text)
    if length > width:
        return f"{set_cell_size(text, width - 1)}…" if width > 1 else set_cell_size(text, width)
    return " " * (width - length) + text if right else text + " " * (width - length)
