"""A query's answer on a terminal, or as plain text for a pipe."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.series import series_text
from trilens.cli.times import show_moment


def show(data: dict[str, Any], *, pretty: bool) -> None:
    kind, result = data["resultType"], data["result"]
    if kind in ("scalar", "string"):
        typer.echo(result[1])
    elif not result:
        typer.echo("no series", err=True)
    elif pretty:
        from trilens.cli.table import show_table

        show_table(kind, result)
    elif kind == "vector":
        for series in result:
            typer.echo(f"{series_text(series['metric'])} {series['value'][1]}")
    else:
        for series in result:
            typer.echo(series_text(series["metric"]))
            for moment, value in series["values"]:
                typer.echo(f"  {show_moment(moment)} {value}")


def show_notes(answer: dict[str, Any]) -> None:
    for note in answer.get("warnings", []):
        typer.echo(f"warning: {note}", err=True)
    for note in answer.get("infos", []):
        typer.echo(f"info: {note}", err=True)
