"""Durations as Prometheus writes them: `15s`, `1h30m`, `30d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

_UNIT_MS = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
_PATTERN = re.compile("".join(rf"(?:(?P<{unit}>[0-9]+){unit})?" for unit in _UNIT_MS))


def duration_ms(text: str) -> int:
    """Milliseconds; a unit may be missing, but not out of order, and only 0 goes without one."""
    if text == "0":
        return 0
    match = _PATTERN.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"not a valid duration: {text!r}; write it like 15s, 5m or 1h30m")
    return sum(int(match[unit]) * size for unit, size in _UNIT_MS.items() if match[unit])


def in_ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def format_duration(value: timedelta) -> str:
    """The shortest exact spelling: 90 s is `1m30s`."""
    rest = in_ms(value)
    if rest == 0:
        return "0s"
    parts = []
    for unit, size in _UNIT_MS.items():
        if unit in ("y", "w") and rest % size:
            continue  # 15 days reads better than 2w1d
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _read(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if value == 0 or isinstance(value, str):
        return timedelta(milliseconds=duration_ms(str(value)))
    raise ValueError(f"a duration needs a unit: write {value}s if {value!r} means seconds")


def _is_positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be above 0")
    return value


Duration = Annotated[timedelta, BeforeValidator(_read), PlainSerializer(format_duration, return_type=str)]
Interval = Annotated[Duration, AfterValidator(_is_positive)]  # how often something is done
