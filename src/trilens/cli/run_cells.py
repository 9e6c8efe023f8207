"""Figures of runs, as short as people write them."""

from __future__ import annotations

from typing import Any, Final

from trilens.cli.times import show_length

UNKNOWN: Final = "-"


def size_text(size: int | None) -> str:
    if size is None:
        return UNKNOWN
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def steps_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def values_text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {figure_text(value)}" for name, value in values.items())


def figure_text(value: float | str | None) -> str:
    if value is None:
        return UNKNOWN
    return value if isinstance(value, str) else f"{value:.4g}"


def rate_text(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None and value >= 1000 else figure_text(value)


def ago_text(t_ms: int | None, now_s: float) -> str:
    return UNKNOWN if t_ms is None else f"{show_length(max(0.0, now_s - t_ms / 1000))} ago"
