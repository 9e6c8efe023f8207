"""Alerts as Prometheus's API tells them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from trilens.alert.templates.values import digits_of, with_exponent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.alert import Alert

_NEVER: Final = "0001-01-01T00:00:00Z"


def alert_answer(alert: Alert) -> dict[str, Any]:
    since = alert.keep_firing_since_ms
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": str(alert.state),
        "activeAt": stamp(alert.active_ms),
        **({"keepFiringSince": stamp(since)} if since is not None else {}),
        "value": _number(alert.value),
    }


def rule_state(alerts: Sequence[Alert]) -> str:
    """The worst of them."""
    states = {str(alert.state) for alert in alerts}
    return next((state for state in ("firing", "pending") if state in states), "inactive")


def stamp(moment_ms: int | None) -> str:
    if moment_ms is None:
        return _NEVER
    seconds, rest = divmod(moment_ms, 1000)
    fraction = f".{rest:03d}".rstrip("0") if rest else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _number(value: float) -> str:
    """With an exponent, whatever its size."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    return sign + (with_exponent(*digits_of(value)) if value else "0e+00")
