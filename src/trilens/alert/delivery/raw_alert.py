"""An alert as Alertmanager's API v2 takes it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from trilens.alert.go_time import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.alert import Alert


def alert_key(labels: Mapping[str, str]) -> str:
    """Short, and the same for the same labels."""
    return hashlib.sha256(msgspec.json.encode(sorted(labels.items()))).hexdigest()[:32]


def alert_body(alert: Alert, labels: Mapping[str, str]) -> bytes:
    ends_ms = alert.resolved_ms if alert.resolved_ms is not None else alert.valid_until_ms
    told: dict[str, Any] = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in alert.annotations if value},
        "startsAt": stamp(alert.fired_ms if alert.fired_ms is not None else alert.active_ms),
        **({"endsAt": stamp(ends_ms)} if ends_ms else {}),
        **({"generatorURL": alert.generator_url} if alert.generator_url else {}),
    }
    return msgspec.json.encode(told)
