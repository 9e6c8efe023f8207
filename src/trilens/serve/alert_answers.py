"""Alerts as Prometheus's API tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.alert.go_time import stamp
from trilens.alert.templates.values import exponential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.alert import Alert


def alert_answer(alert: Alert) -> dict[str, Any]:
    since = alert.keep_firing_since_ms
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": str(alert.state),
        "activeAt": stamp(alert.active_ms),
        **({"keepFiringSince": stamp(since)} if since is not None else {}),
        "value": exponential(alert.value),
    }


def rule_state(alerts: Sequence[Alert]) -> str:
    """The worst of them."""
    states = {str(alert.state) for alert in alerts}
    return next((state for state in ("firing", "pending") if state in states), "inactive")
