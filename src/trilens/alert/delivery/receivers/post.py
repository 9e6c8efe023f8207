"""Posting to HTTP receivers, and what their answers mean."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from trilens import __version__
from trilens.model.errors import NotificationRefused, ReceiverAway
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_MOST_TOLD: Final = 200  # characters of an answer
_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class Poster:
    """One connection, kept."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        verify: Any = tls if tls is not None else True
        self._http = httpx.Client(
            timeout=timeout_s, verify=verify, headers={"User-Agent": f"trilens/{__version__}"}
        )

    def post(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """What a good answer says. Raises ReceiverAway or NotificationRefused."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            answer = self._http.post(url, content=body, headers=sent)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise ReceiverAway(without_passwords(str(e)) or type(e).__name__) from e
        if answer.is_success:
            return answer.content
        told = answer.text[:_MOST_TOLD].strip()
        reason = f"HTTP {answer.status_code}" + (f": {without_passwords(told)}" if told else "")
        if answer.status_code in _LATER or answer.status_code >= 500:
            raise ReceiverAway(reason, wait_s=_asked_wait_s(answer.headers.get("Retry-After", "")))
        raise NotificationRefused(reason)

    def close(self) -> None:
        self._http.close()


def _asked_wait_s(text: str) -> float | None:
    """Seconds, or a date."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
