"""Numbers as Prometheus writes them into label values and messages."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Shortest decimal that reads back the same; an exponent only where Go's formatting has one."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e21:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    power = int(exponent)
    if -5 < power < 21:
        return f"{value:.{max(0, len(mantissa.replace('-', '').replace('.', '')) - 1 - power)}f}"
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def open_metrics_number(value: float) -> str:
    """As OpenMetrics writes a quantile: always with a fraction, so that 1 is "1.0"."""
    if math.isnan(value) or math.isinf(value):
        return number(value)
    text = number(value)
    return text if "." in text or "e" in text else text + ".0"
