"""Values as W&B writes them in JSON."""

from __future__ import annotations

import math
from typing import Final

_NOT_IN_JSON: Final = ("NaN", "Infinity", "-Infinity")


def number(value: object) -> float | None:
    """None of what is no number. Those that JSON has not are written as texts."""
    if value in _NOT_IN_JSON:
        return float(str(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf


def step_of(value: object) -> int | None:
    told = number(value)
    return round(told) if told is not None and abs(told) < 1 << 62 else None
