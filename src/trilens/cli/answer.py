"""A query's answer on a terminal, or as plain text for a pipe."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.order import by_labels
from trilens.cli.series import HISTOGRAM, points, series_text
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
    else:
        _show_lines(kind, result)
    if any(value == HISTOGRAM for series in result for _, value in points(series)):
        typer.echo("native histograms are not shown (--json has them)", err=True)


def sample_lines(data: dict[str, Any], *, ordered: bool) -> list[dict[str, Any]]:
    """A line for each sample: when, the value, and its labels."""
    kind, result = data["resultType"], data["result"]
    if kind in ("scalar", "string"):
        return [{"time": show_moment(result[0]), "value": result[1]}]
    return [
        {"time": show_moment(moment), "value": value, **_apart_from(series["metric"])}
        for series in (result if ordered else by_labels(result))
        for moment, value in points(series)
    ]


def _apart_from(labels: dict[str, str]) -> dict[str, str]:
    """A label may be called time or value, too."""
    return {f"label_{name}" if name in ("time", "value") else name: text for name, text in labels.items()}


def _show_lines(kind: str, result: list[dict[str, Any]]) -> None:
    """Every line says whose it is: people cut such output with grep and awk."""
    for series in result:
        labels = series_text(series["metric"])
        for moment, value in points(series):
            when = "" if kind == "vector" else f" {show_moment(moment)}"
            typer.echo(f"{labels}{when} {value}")


def show_notes(answer: dict[str, Any]) -> None:
    for note in answer.get("warnings", []):
        typer.echo(f"warning: {note}", err=True)
    for note in answer.get("infos", []):
        typer.echo(f"info: {note}", err=True)
