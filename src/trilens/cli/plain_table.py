"""A table without lines, for a terminal and for a pipe."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 10_000  # in a pipe nothing is folded or cut


def print_table(titles: list[str], rows: list[list[str]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    for line in console.render_lines(table, console.options):
        typer.echo("".join(segment.text for segment in line).rstrip())
