"""A series of an answer as text."""

from __future__ import annotations

import json
from typing import Any, Final

# A native histogram, which a server in front of another Prometheus may answer with, is no number.
HISTOGRAM: Final = "<histogram>"


def series_text(metric: dict[str, str]) -> str:
    """`name{label="value",...}`, as PromQL writes it."""
    labels = ",".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in metric.items()
        if name != "__name__"
    )
    name = metric.get("__name__", "")
    return f"{name}{{{labels}}}" if labels or not name else name


def points(series: dict[str, Any]) -> list[tuple[float, str]]:
    """Time and value of its samples, the one of an instant query or those of a range, in order."""
    numbers = [series["value"]] if "value" in series else series.get("values", [])
    histograms = [series["histogram"]] if "histogram" in series else series.get("histograms", [])
    found = [(moment, value) for moment, value in numbers] + [(moment, HISTOGRAM) for moment, _ in histograms]
    return sorted(found, key=lambda point: point[0])
