"""Numbers, durations and moments as Prometheus writes them for people."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from trilens.alert.templates.call_error import CallError
from trilens.alert.templates.lexer import quoted
from trilens.alert.templates.sprintf import sprintf
from trilens.alert.templates.values import Moment, shown, type_name

_LARGE: Final = ("k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL: Final = ("m", "u", "n", "p", "f", "a", "z", "y")
_FLOAT: Final = re.compile(
    r"[+-]?(?:inf|infinity|nan|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?\d+)?)", re.IGNORECASE
)


def to_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise CallError(f"can't convert {'<nil>' if value is None else type_name(value)} to float")
    if isinstance(value, str):
        if not _FLOAT.fullmatch(value) or (value[:1] in "+-" and value[1:].lower() == "nan"):
            raise CallError(f"strconv.ParseFloat: parsing {quoted(value)}: invalid syntax")
        return float(value)
    return float(value)


def humanize(given: Any) -> str:
    value = to_float(given)
    if value == 0 or not math.isfinite(value):
        return _four(value)
    if abs(value) >= 1:
        return _scaled_down(value, _LARGE, 1000)
    return _scaled_up(value)


def humanize_1024(given: Any) -> str:
    value = to_float(given)
    if abs(value) <= 1 or not math.isfinite(value):
        return _four(value)
    return _scaled_down(value, tuple(f"{'k' if p == 'k' else p}i" for p in _LARGE), 1024)


def humanize_duration(given: Any) -> str:
    value = to_float(given)
    if not math.isfinite(value):
        return _four(value)
    if value == 0:
        return f"{_four(value)}s"
    if abs(value) < 1:
        return f"{_scaled_up(value)}s"
    sign, value = ("-" if value < 0 else ""), abs(value)
    whole = int(value)
    seconds, minutes, hours, days = whole % 60, whole // 60 % 60, whole // 3600 % 24, whole // 86400
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    if minutes:
        return f"{sign}{minutes}m {seconds}s"
    return f"{sign}{_four(value)}s"


def humanize_percentage(given: Any) -> str:
    return f"{_four(to_float(given) * 100)}%"


def humanize_timestamp(given: Any) -> str:
    value = to_float(given)
    return str(to_time(value)) if math.isfinite(value) else _four(value)


def to_time(given: Any) -> Moment:
    value = to_float(given)
    if not math.isfinite(value):
        raise CallError("value is NaN or Inf")
    if abs(value) * 1e9 > 2**63:
        raise CallError(
            f"{shown(value)} cannot be represented as a nanoseconds timestamp since it overflows int64"
        )
    return Moment(int(value * 1e9) // 1_000_000)


def _four(value: float) -> str:
    return sprintf("%.4g", [value])


def _scaled_down(value: float, prefixes: tuple[str, ...], by: int) -> str:
    prefix = ""
    for larger in prefixes:
        if abs(value) < by:
            break
        prefix, value = larger, value / by
    return f"{_four(value)}{prefix}"


def _scaled_up(value: float) -> str:
    prefix = ""
    for smaller in _SMALL:
        if abs(value) >= 1:
            break
        prefix, value = smaller, value * 1000
    return f"{_four(value)}{prefix}"
