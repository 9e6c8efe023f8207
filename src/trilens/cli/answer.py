"""A query's answer on a terminal, or as plain text for a pipe."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.order import by_labels
from trilens.cli.series import series_text
from trilens.cli.times import show_moment


def show(data: dict[str, Any], *, pretty: bool, ordered: bool = False) -> None:
    """`ordered` results stay as they are; others are sorted by their labels."""
    kind, result = data["resultType"], data["result"]
    if kind in ("scalar", "string"):
        typer.echo(result[1])
        return
    if not result:
        typer.echo("no series", err=True)
        return
    if not ordered:
        result = by_labels(result)
    if pretty:
        from trilens.cli.table import show_table

        show_table(kind, result, ordered=ordered)
        return
    for series in result:
        labels = series_text(series["metric"])
        if kind == "vector":
            typer.echo(f"{labels} {series['value'][1]}")
        else:  # every line says whose it is: people cut such output with grep and awk
            for moment, value in series["values"]:
                typer.echo(f"{labels} {show_moment(moment)} {value}")


def show_notes(answer: dict[str, Any]) -> None:
    for note in answer.get("warnings", []):
        typer.echo(f"warning: {note}", err=True)
    for note in answer.get("infos", []):
        typer.echo(f"info: {note}", err=True)
