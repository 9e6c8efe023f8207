"""A query's answer as a table that fits the terminal."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trilens.cli.order import natural
from trilens.cli.series import HISTOGRAM, points, series_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_BARS = "▁▂▃▄▅▆▇█"
_GAP = 2  # blanks between two columns
_CURVE, _SHORT_CURVE = 40, 12  # characters of a curve, where there is room and where there is little
_FOLDED = 10  # a label's column is at least so wide, or as wide as its text
_TELLING = frozenset({"pod", "namespace", "job", "gpu"})  # what people look for: the last to go

Columns = dict[str, list[str]]


def show_table(kind: str, result: list[dict[str, Any]], *, ordered: bool) -> None:
    """Rows that are not `ordered` already are sorted by what is shown of their labels, from the left."""
    console = Console(file=sys.stdout)
    metrics = [series["metric"] for series in result]
    shared = shared_labels(metrics)
    own = [{name: value for name, value in metric.items() if name not in shared} for metric in metrics]
    names = sorted({name for labels in own for name in labels})
    ranged = kind == "matrix"
    numbers = _summaries(result) if ranged else {"value": [points(series)[0][1] for series in result]}
    room = console.width - sum(_width(title, cells) + _GAP for title, cells in numbers.items())
    columns = {name: [labels.get(name, "") for labels in own] for name in names}
    shown = columns_that_fit(columns, room - (_SHORT_CURVE + _GAP if ranged else 0))
    if ranged:
        left = room - sum(_width(name, columns[name]) + _GAP for name in shown)
        width = min(_CURVE, max(_SHORT_CURVE, left))
        numbers = {"trend": [sparkline(curve, width) for curve in _curves(result)], **numbers}
    if shared:
        console.print(Text(series_text(shared), style="bold"), soft_wrap=True)
    table = _table({name: columns[name] for name in shown}, numbers, ordered=ordered)
    # A terminal that is too narrow even so wraps the lines: nothing is cut off.
    least = sum(min(_FOLDED, _width(name, columns[name])) + _GAP for name in shown)
    least += sum(_width(title, cells) + _GAP for title, cells in numbers.items())
    Console(file=sys.stdout, width=max(console.width, least)).print(table)
    hidden = [name for name in names if name not in shown]
    if hidden:
        note = f"not shown, as the rows differ without: {', '.join(hidden)} (--json has all)"
        console.print(Text(note, style="dim"), soft_wrap=True)


def _table(labels: Columns, numbers: Columns, *, ordered: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=True)
    for name, cells in labels.items():
        table.add_column(name, overflow="fold", min_width=min(_FOLDED, _width(name, cells)))
    for title in numbers:
        table.add_column(title, justify="left" if title == "trend" else "right", no_wrap=True)
    rows = list(zip(*labels.values(), *numbers.values(), strict=True))
    if not ordered:
        rows.sort(key=lambda row: [natural(cell) for cell in row[: len(labels)]])
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def shared_labels(metrics: list[dict[str, str]]) -> dict[str, str]:
    """What all series have in common is said once, above the table."""
    first, *rest = metrics
    return {name: value for name, value in first.items() if all(m.get(name) == value for m in rest)}


def columns_that_fit(columns: Columns, room: int) -> list[str]:
    """The names of all columns if there is room for them; else without those that the rest can do without.

    The first to go are identifiers, different in every row; then the wider of two that say the same, such as
    a host name and an address; then whatever is not needed to tell the rows apart.
    """
    widths = {name: _width(name, cells) for name, cells in columns.items()}
    widest_first = sorted(columns, key=lambda name: -widths[name])
    kept = list(columns)

    def different(names: list[str]) -> int:
        return len(set(zip(*(columns[name] for name in names), strict=True))) if names else 1

    def is_identifier(name: str) -> bool:
        return name not in _TELLING and different([name]) == len(columns[name])

    def has_twin(name: str) -> bool:
        twins = (other for other in kept if different([name]) == different([other]) and other != name)
        return name not in _TELLING and any(different([name, twin]) == different([name]) for twin in twins)

    for may_go in (is_identifier, has_twin, lambda _: True):
        for name in widest_first:
            if sum(widths[other] + _GAP for other in kept) <= room:
                return kept
            rest = [other for other in kept if other != name]
            if name in kept and may_go(name) and different(rest) == different(kept):
                kept = rest
    return kept


def _width(title: str, cells: list[str]) -> int:
    return max(len(title), max(map(len, cells), default=0))


def _summaries(result: list[dict[str, Any]]) -> Columns:
    columns: Columns = {"min": [], "avg": [], "max": [], "last": []}
    for series in result:
        values = [float(value) for _, value in series.get("values", ())]
        finite = [value for value in values if math.isfinite(value)] or [math.nan]
        last = points(series)[-1][1]
        shown = [f"{number:.6g}" for number in (min(finite), sum(finite) / len(finite), max(finite))]
        shown = shown if values else [""] * len(shown)
        shown.append(last if last == HISTOGRAM else f"{float(last):.6g}")
        for cells, text in zip(columns.values(), shown, strict=True):
            cells.append(text)
    return columns


def _curves(result: list[dict[str, Any]]) -> Iterator[list[float]]:
    """Each series' values on one time axis for all; NaN where it has none."""
    place = {t: i for i, t in enumerate(sorted({t for series in result for t, _ in points(series)}))}
    for series in result:
        curve = [math.nan] * len(place)
        for t, value in series.get("values", ()):
            curve[place[t]] = float(value)
        yield curve


def sparkline(values: list[float], width: int = _CURVE) -> str:
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
