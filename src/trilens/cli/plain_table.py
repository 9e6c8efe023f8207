"""A table without lines, for a terminal and for a pipe.

A pipe gets every column, and nothing is cut or folded. On a terminal that is too narrow, columns that the
reader can do without are left out and named, before any word is torn apart.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

_PIPE_WIDTH = 10_000  # in a pipe nothing is folded or cut
_GAP = 2
_FOLDED = 30  # cells that a column of sentences needs to be read with ease
_LEAST = 12  # and so many at the least


def print_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    may_go: Sequence[str] = (),
    folds: Sequence[str] = (),
) -> None:
    """`may_go` names the columns to leave out where there is no room, the least missed first; `folds`
    those of sentences, which take several lines."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    widths = [
        max(cell_len(cell) for cell in (title, *(row[at] for row in rows))) for at, title in enumerate(titles)
    ]
    needed = [
        min(width, max(_FOLDED, cell_len(title))) if title in folds else width
        for title, width in zip(titles, widths, strict=True)
    ]
    empty = [title for at, title in enumerate(titles) if rows and not any(row[at] for row in rows)]
    left_out = _left_out(dict(zip(titles, needed, strict=True)), [*empty, *may_go], console.width)
    shown = [at for at, title in enumerate(titles) if title not in left_out]
    least = [min(needed[at], _LEAST) if titles[at] in folds else needed[at] for at in shown]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=True)
    given: dict[int, int] = {}
    if _total(least) <= console.width:  # else all are folded, as rich sees fit
        given = {at: widths[at] for at in shown if titles[at] not in folds}
        sentences = {at: widths[at] for at in shown if titles[at] in folds}
        given |= _shares(sentences, console.width - sum(given.values()) - _GAP * (len(shown) - 1))
    for at in shown:
        table.add_column(titles[at], overflow="fold", width=given.get(at))
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    for line in console.render_lines(table, console.options):
        typer.echo("".join(segment.text for segment in line).rstrip())
    if missed := [title for title in titles if title in left_out and title not in empty]:
        typer.echo(f"not shown, for want of width: {', '.join(missed)} (a pipe and --json have all)")


def _left_out(needed: dict[str, int], may_go: Sequence[str], room: int) -> set[str]:
    left_out: set[str] = set()
    for title in may_go:
        if _total([width for kept, width in needed.items() if kept not in left_out]) <= room:
            break
        left_out.add(title)
    return left_out


def _shares(widths: dict[int, int], room: int) -> dict[int, int]:
    """The short ones get what they need, the long ones as much as each other."""
    shares = {}
    for left, (at, width) in zip(
        range(len(widths), 0, -1), sorted(widths.items(), key=lambda one: one[1]), strict=True
    ):
        shares[at] = min(width, room // left)
        room -= shares[at]
    return shares


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)
