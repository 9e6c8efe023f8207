"""Moments as Go writes them in JSON, which is how Prometheus, Alertmanager and their clients know them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

NEVER: Final = "0001-01-01T00:00:00Z"


def stamp(moment_ms: int | None) -> str:
    """None is a moment that has not come."""
    if moment_ms is None:
        return NEVER
    seconds, rest = divmod(moment_ms, 1000)
    fraction = f".{rest:03d}".rstrip("0") if rest else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
