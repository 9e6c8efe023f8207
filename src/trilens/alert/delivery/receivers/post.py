"""Posting to HTTP receivers, and what their answers mean."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec

from trilens import __version__
from trilens.collect.deadline import Deadline
from trilens.model.errors import NotificationRefused, ReceiverAway
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_MOST_BYTES: Final = 64 << 10  # of an answer: what follows is not waited for
_MOST_TOLD: Final = 200  # characters of one that is an error
_MOST_QUOTED: Final = 80  # bytes of one that is not the receiver's own
_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class Poster:
    """One connection, kept."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        verify: Any = tls if tls is not None else True
        self._deadline = Deadline(timeout_s)
        self._http = httpx.Client(
            timeout=timeout_s,
            verify=verify,
            follow_redirects=False,  # our credentials are for this server and no other
            headers={"User-Agent": f"trilens/{__version__}"},
        )

    def post(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """What an answer of 2xx says, as far as anybody looks at it. Raises ReceiverAway or
        NotificationRefused."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            extensions = self._deadline.begin()
            with self._http.stream("POST", url, content=body, headers=sent, extensions=extensions) as answer:
                said = _beginning(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise ReceiverAway(without_passwords(str(e)) or type(e).__name__) from e
        if answer.is_success:
            return said
        told = said.decode(errors="replace")[:_MOST_TOLD].strip()
        reason = f"HTTP {answer.status_code}" + (f": {without_passwords(told)}" if told else "")
        if answer.status_code in _LATER or answer.status_code >= 500:
            raise ReceiverAway(reason, wait_s=_asked_wait_s(answer.headers.get("Retry-After", "")))
        raise NotificationRefused(reason)

    def close(self) -> None:
        self._http.close()


def object_of(said: bytes) -> dict[str, Any]:
    """The JSON object that an answer is; an empty one where it is none."""
    try:
        found: dict[str, Any] = msgspec.json.decode(said, type=dict)
    except (ValueError, RecursionError):  # msgspec's own are ValueErrors, and text that is none is one, too
        return {}
    return found


def not_its_own(said: bytes, kind: str) -> ReceiverAway:
    """Whoever gave this answer has taken nothing: a proxy with a page to log in at, say. It may be gone in a
    minute, so it is sent again."""
    start = without_passwords(said[:_MOST_QUOTED].decode(errors="replace"))
    return ReceiverAway(f"it answers as no {kind} does: {start!r}")


def _beginning(answer: httpx.Response) -> bytes:
    said = bytearray()
    for piece in answer.iter_bytes():
        said += piece
        if len(said) >= _MOST_BYTES:
            break
    return bytes(said[:_MOST_BYTES])


def _asked_wait_s(text: str) -> float | None:
    """Seconds, or a date."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
