"""A query's answer on a terminal, or as plain text for a pipe."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import typer

from trilens.cli.times import show_moment

_BARS = "▁▂▃▄▅▆▇█"


def series_text(metric: dict[str, str]) -> str:
    """`name{label="value",...}`, as PromQL writes it."""
    labels = ",".join(f"{name}={json.dumps(value)}" for name, value in metric.items() if name != "__name__")
    name = metric.get("__name__", "")
    return f"{name}{{{labels}}}" if labels or not name else name


def show(data: dict[str, Any], *, pretty: bool) -> None:
    kind, result = data["resultType"], data["result"]
    if kind in ("scalar", "string"):
        typer.echo(result[1])
    elif not result:
        typer.echo("no series", err=True)
    elif pretty:
        _show_table(kind, result)
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


def _show_table(kind: str, result: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shared = _shared_labels(result)
    own = [
        {name: value for name, value in series["metric"].items() if name not in shared} for series in result
    ]
    columns = sorted({name for labels in own for name in labels})
    table = Table(
        title=series_text(shared) if shared else None, title_justify="left", box=None, pad_edge=False
    )
    for name in columns:
        table.add_column(name, overflow="fold")
    for name in ("value",) if kind == "vector" else ("", "min", "max", "last"):
        table.add_column(name, justify="right" if name else "left", no_wrap=not name)
    for labels, series in zip(own, result, strict=True):
        cells = [Text(labels.get(name, "")) for name in columns]
        if kind == "vector":
            cells.append(Text(series["value"][1]))
        else:
            values = [float(value) for _, value in series["values"]]
            finite = [v for v in values if math.isfinite(v)] or [math.nan]
            cells += [Text(sparkline(values)), Text(f"{min(finite):g}"), Text(f"{max(finite):g}")]
            cells.append(Text(series["values"][-1][1]))
        table.add_row(*cells)
    Console(file=sys.stdout).print(table)


def _shared_labels(result: list[dict[str, Any]]) -> dict[str, str]:
    """What all series have in common is said once, above the table."""
    if len(result) == 1:
        return {}
    first, *rest = [series["metric"] for series in result]
    return {name: value for name, value in first.items() if all(m.get(name) == value for m in rest)}


def sparkline(values: list[float], width: int = 40) -> str:
    """One character for each of at most `width` stretches, by their mean."""
    size = max(1, math.ceil(len(values) / width))
    means = []
    for start in range(0, len(values), size):
        part = [v for v in values[start : start + size] if math.isfinite(v)]
        means.append(sum(part) / len(part) if part else math.nan)
    finite = [m for m in means if math.isfinite(m)]
    if not finite:
        return " " * len(means)
    low, spread = min(finite), max(finite) - min(finite)
    top = len(_BARS) - 1
    return "".join(
        " " if math.isnan(m) else _BARS[round((m - low) / spread * top) if spread else 0] for m in means
    )
