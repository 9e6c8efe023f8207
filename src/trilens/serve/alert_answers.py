"""Alerts as Prometheus's API tells them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from trilens.alert.go_time import stamp
from trilens.alert.templates.values import exponential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.alert import Alert


_stamp: Final = lru_cache(4_096)(stamp)  # a thousand alerts of one rule began at few moments


def alert_answer(alert: Alert) -> dict[str, Any]:
    since = alert.keep_firing_since_ms
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": str(alert.state),
        "activeAt": _stamp(alert.active_ms),
        **({"keepFiringSince": _stamp(since)} if since is not None else {}),
        "value": exponential(alert.value),
    }


def rule_state(alerts: Sequence[Alert]) -> str:
    """The worst of them."""
    states = {str(alert.state) for alert in alerts}
    return next((state for state in ("firing", "pending") if state in states), "inactive")
