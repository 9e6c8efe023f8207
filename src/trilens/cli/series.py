"""A series as text."""

from __future__ import annotations

import json


def series_text(metric: dict[str, str]) -> str:
    """`name{label="value",...}`, as PromQL writes it."""
    labels = ",".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in metric.items()
        if name != "__name__"
    )
    name = metric.get("__name__", "")
    return f"{name}{{{labels}}}" if labels or not name else name
