"""SMTP that ends. A socket's timeout is of each read: whoever says a byte now and then is never late."""

from __future__ import annotations

import io
import smtplib
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_WHOLE: Final = 3  # times the longest step: servers that are slow on purpose are so in one of them, or two
_MOST_BYTES: Final = 64 << 10  # that a server says, of which a line or two counts


class TimelySmtp(smtplib.SMTP):
    """To look up the name, to connect, and to agree on TLS, each has the step's time to itself."""

    def __init__(self, host: str, port: int, step_s: float, **of_tls: Any) -> None:
        self._until_s = time.monotonic() + _WHOLE * step_s
        super().__init__(host, port, timeout=step_s, **of_tls)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:  # as after a connect, and after STARTTLS
            self.file = io.BufferedReader(_Replies(self.sock, self._hurry))
        return super().getreply()

    def send(self, s: Any) -> None:
        self._hurry()
        super().send(s)

    def _hurry(self) -> None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise smtplib.SMTPServerDisconnected("timed out: the whole conversation took too long")
        if self.sock is not None:
            self.sock.settimeout(min(self.timeout, left_s))


class TimelySmtpTls(TimelySmtp, smtplib.SMTP_SSL):
    """With TLS from the first byte."""


class _Replies(io.RawIOBase):
    def __init__(self, sock: socket.socket, hurry: Callable[[], None]) -> None:
        self._sock = sock
        self._hurry = hurry
        self._left = _MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._hurry()
        count = self._sock.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise OSError(f"it says more than {_MOST_BYTES >> 10} KiB")
        return count
