"""OpenTelemetry's names as Prometheus writes them: http.server.duration in ms becomes
http_server_duration_milliseconds, a counter ends in _total."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_IN_A_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")
_UNITS: Final = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "TiBy": "tibibytes",
    "KBy": "kilobytes",
    "MBy": "megabytes",
    "GBy": "gigabytes",
    "TBy": "terabytes",
    "m": "meters",
    "V": "volts",
    "A": "amperes",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "Cel": "celsius",
    "Hz": "hertz",
    "1": "",
    "%": "percent",
}
_PER: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}


@lru_cache(maxsize=4096)
def metric_name(name: str, unit: str, *, counts: bool, gauge: bool) -> str:
    """`counts`: a sum that only grows. Empty when nothing of the name can be used."""
    words = [word for word in _NOT_IN_A_NAME.split(name) if word]
    if not words:
        return ""
    main, _, per = unit.partition("/")
    main = _unit(main, _UNITS)
    if main and main not in words:
        words.append(main)
    per = _unit(per, _PER)
    if per:
        words.append(f"per_{per}")
    if counts:
        words = [*(word for word in words if word != "total"), "total"]
    if gauge and unit == "1":
        words = [*(word for word in words if word != "ratio"), "ratio"]
    written = "_".join(words)
    return f"_{written}" if written[0].isdigit() else written


@lru_cache(maxsize=4096)
def label_name(attribute: str) -> str:
    """Empty when nothing of the name can be used."""
    name = _NOT_IN_A_LABEL.sub("_", attribute)
    if not name.strip("_"):
        return ""
    if name[0].isdigit():
        return f"key_{name}"
    return f"key{name}" if name.startswith("_") and not name.startswith("__") else name


def _unit(text: str, known: dict[str, str]) -> str:
    """What stands in braces is a note for people, not a unit."""
    unit = text.strip()
    if not unit or "{" in unit or "}" in unit:
        return ""
    return re.sub(r"[^a-zA-Z0-9]+", "_", known.get(unit, unit)).strip("_")
