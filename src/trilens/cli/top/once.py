"""One frame as plain text, for a script or a pipe."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import typer

from trilens.cli.top.choice import worst_first
from trilens.cli.top.columns import GAP, placed, whole
from trilens.cli.top.head_text import incidents_line, money_line
from trilens.cli.top.tables import workload_columns

if TYPE_CHECKING:
    from trilens.cli.top.marks import Marks
    from trilens.cli.top.picture import Picture


def print_frame(picture: Picture, marks: Marks, *, ended: bool) -> None:
    """In a pipe nothing is cut."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    shown = worst_first(one for one in picture.workloads if ended or not one.is_over)
    every = workload_columns(marks)
    columns = placed(every, width) if width is not None else whole(every, shown)
    typer.echo(money_line(picture.head, marks, 0).plain)
    typer.echo(incidents_line(picture.head, width).plain)
    gap = " " * GAP
    typer.echo(gap.join(one.title() for one in columns).rstrip())
    for workload in shown:
        typer.echo(gap.join(one.text(workload) for one in columns).rstrip())
    for warning in picture.warnings:
        typer.echo(f"warning: {warning}", err=True)
