"""Alerts that another server evaluates, where it has the samples: symptoms of incidents like our own."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.model.alert import Alert, AlertState
from trilens.model.errors import SourceError
from trilens.model.labels import make_labels
from trilens.serve.looking_often import LookingOften

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.model.labels import Labels

_LOOK_S: Final = 15.0
_VALID_MS: Final = 10 * 60_000  # a server that does not answer has not said that they are over


class AlertSource(Protocol):
    async def alerts(self) -> list[dict[str, Any]]:
        """As /api/v1/alerts has them. Raises SourceError where there is no answer."""


class AlertsElsewhere:
    """Asks for as long as it runs."""

    def __init__(
        self,
        source: AlertSource,
        take: Callable[[Sequence[Alert]], None],
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._source = source
        self._take = take
        self._clock_ms = clock_ms
        self._firing: dict[Labels, Alert] = {}
        unanswered = "alerts of the metric source are not seen"
        self._looking = LookingOften(self.look, _LOOK_S, unanswered)

    async def start(self) -> None:
        await self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()

    async def look(self) -> None:
        """Raises SourceError when there is no answer: what fired last then goes on."""
        told = await self._source.alerts()
        now_ms = self._clock_ms()
        firing = {alert.labels: alert for alert in _read(told, now_ms)}
        over = [
            replace(alert, state=AlertState.RESOLVED, resolved_ms=now_ms)
            for labels, alert in self._firing.items()
            if labels not in firing
        ]
        self._firing = firing
        if firing or over:
            self._take([*firing.values(), *over])


def _read(told: list[dict[str, Any]], now_ms: int) -> list[Alert]:
    """Those that fire. Since when it has been so is all that is told: how long they waited is not."""
    try:
        return [
            Alert(
                make_labels({str(name): str(text) for name, text in one["labels"].items()}),
                make_labels({str(name): str(text) for name, text in one.get("annotations", {}).items()}),
                AlertState.FIRING,
                float(one.get("value") or math.nan),
                active_ms := _moment_ms(one["activeAt"]),
                fired_ms=active_ms,
                evaluated_ms=now_ms,
                valid_until_ms=now_ms + _VALID_MS,
            )
            for one in told
            if one["state"] == AlertState.FIRING
        ]
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        raise SourceError("the metric source tells its alerts in a way that is not Prometheus's") from e


def _moment_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
