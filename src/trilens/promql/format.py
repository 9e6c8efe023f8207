"""Numbers as Prometheus writes them into label values and messages."""

from __future__ import annotations

import math
from decimal import Decimal


def number(value: float) -> str:
    """As Go's %v: the fewest digits that read back the same, an exponent for the very small or large."""
    if value and math.isfinite(value) and not 1e-4 <= abs(value) < 1e21:
        return repr(value)
    return positional(value)


def positional(value: float) -> str:
    """The fewest digits that read back the same, never an exponent: how `count_values` writes a label."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{Decimal(repr(value)).normalize():f}"


def open_metrics_number(value: float) -> str:
    """As OpenMetrics writes a quantile: always with a fraction, so that 1 is "1.0"."""
    if math.isnan(value) or math.isinf(value):
        return number(value)
    text = number(value)
    return text if "." in text or "e" in text else text + ".0"
