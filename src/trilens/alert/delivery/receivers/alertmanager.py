"""Alertmanager, by its API v2: alerts as they are, as from a Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.alert.delivery.receivers.post import Poster, not_its_own
from trilens.alert.go_time import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.settings.receivers import AlertmanagerSettings

AT_ONCE: Final = 64  # alerts in a request, as Prometheus has it
_TEST_MS: Final = 60_000


class AlertmanagerChannel:
    """One server of possibly several: each gets all alerts, and they settle among themselves who tells."""

    def __init__(self, settings: AlertmanagerSettings, url: str) -> None:
        self._settings = settings
        self._url = f"{url}/api/v2/alerts"
        is_tls = url.startswith("https://")
        self._poster = Poster(settings.timeout.total_seconds(), settings.tls() if is_tls else None)

    def send(self, bodies: Sequence[bytes]) -> None:
        said = self._poster.post(self._url, b"[" + b",".join(bodies) + b"]", self._settings.request_headers())
        if not _is_its_own(said):
            raise not_its_own(said, "Alertmanager")

    def test(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        told = {
            "labels": {"alertname": "TrilensTest", "severity": "info"},
            "annotations": {"summary": "A test of Trilens: nothing is wrong"},
            "startsAt": stamp(now_ms),
            "endsAt": stamp(now_ms + _TEST_MS),
        }
        self.send([msgspec.json.encode(told)])

    def close(self) -> None:
        self._poster.close()


def _is_its_own(said: bytes) -> bool:
    """Alertmanager says nothing; some that stand in for it say {"status": "success"}. A page to log in at, or
    whatever else a proxy makes of it, has taken no alert."""
    try:
        msgspec.json.decode(said.strip() or b"{}")
    except (ValueError, RecursionError):
        return False
    return True
