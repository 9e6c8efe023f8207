"""One kept connection to a server."""

from __future__ import annotations

import contextlib
import socket
import time
import zlib
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from trilens.sdk.guard import describe
from trilens.sdk.outbox.answer import Answer, NotTaken, Trouble, read_answer

if TYPE_CHECKING:
    from http.client import HTTPConnection

PATH: Final = "/api/v1/runs/records"
_TIMEOUT_S: Final = 10.0  # the server answers when records are on disk, which takes it a second or so
_MAX_ANSWER_BYTES: Final = 64 * 1024
_SMALL_BYTES: Final = 1024  # not worth compressing


class Transport(Protocol):
    def post(self, body: bytes, *, for_dead: bool = False, deadline_s: float | None = None) -> Answer:
        """`for_dead`: what another process left, which is no sign of its life. `deadline_s` is by the
        monotonic clock."""

    def abort(self) -> None:
        """By any thread: a request under way fails."""

    def close(self) -> None: ...


class HttpTransport:
    """Used by one thread, but for `abort`."""

    def __init__(self, server: str, token: str | None) -> None:
        self._parts = urlsplit(server)
        self._token = token
        self._connection: HTTPConnection | None = None
        from trilens.sdk import loaded_before_threads  # noqa: F401 - by the thread of the program

    def post(self, body: bytes, *, for_dead: bool = False, deadline_s: float | None = None) -> Answer:
        timeout_s = _TIMEOUT_S if deadline_s is None else min(_TIMEOUT_S, deadline_s - time.monotonic())
        if timeout_s <= 0:
            return NotTaken(Trouble.AWAY, "no time left")
        is_kept = self._connection is not None
        answer = self._try(body, for_dead, timeout_s)
        if answer is None and is_kept:
            # A server closes connections that nobody uses; only a new one tells whether it is there.
            answer = self._try(body, for_dead, timeout_s)
        return answer or NotTaken(Trouble.AWAY, "the connection was closed without an answer")

    def abort(self) -> None:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it has just been closed
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(self, body: bytes, for_dead: bool, timeout_s: float) -> Answer | None:
        """None when the connection was closed before an answer came."""
        from http.client import HTTPException  # loads much, and only this thread needs it

        headers = {"Content-Type": "application/x-ndjson"}
        if len(body) > _SMALL_BYTES:
            headers["Content-Encoding"] = "gzip"
            body = zlib.compress(body, 1, wbits=31)
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        path = f"{self._parts.path}{PATH}{'?for_dead=true' if for_dead else ''}"
        try:
            connection = self._connected(timeout_s)
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            content = response.read(_MAX_ANSWER_BYTES)
            if response.will_close or len(content) == _MAX_ANSWER_BYTES:
                self.close()
            return read_answer(response.status, response.headers.get("Retry-After"), content)
        except (ConnectionResetError, BrokenPipeError):  # RemoteDisconnected too
            self.close()
            return None
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            trouble = Trouble.AWAY if isinstance(error, OSError) else Trouble.WRONG
            return NotTaken(trouble, describe(error))

    def _connected(self, timeout_s: float) -> HTTPConnection:
        if self._connection is None:
            from http.client import HTTPConnection, HTTPSConnection

            kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
            self._connection = kind(self._parts.hostname or "", self._parts.port, timeout=timeout_s)
        self._connection.timeout = timeout_s
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_s)
        return self._connection
