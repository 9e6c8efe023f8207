"""A server that says one byte after the other, each well in time, and comes to no end."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

HEAD = b"HTTP/1.1 200 OK\r\n"
_LONGEST_S = 20.0  # a test that fails waits so long, others do not


class Dripping:
    """To one who connects: `first`, then `drop` for as long as it is heard. Whoever hangs up in the middle
    has given it up, which is what tests look at: how long that took is no matter of theirs."""

    def __init__(
        self, first: bytes, drop: bytes, *, every_s: float = 0.02, tls: ssl.SSLContext | None = None
    ) -> None:
        self._tls = tls
        self._first, self._drop, self._every_s = first, drop, every_s
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}" if tls is None else f"https://localhost:{self.port}"
        self._thread = threading.Thread(target=self._drip)
        self._is_given_up = False

    def __enter__(self) -> Dripping:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._socket.close()

    def is_given_up(self) -> bool:
        """Before it came to an end by itself."""
        self._thread.join()
        return self._is_given_up

    def _drip(self) -> None:
        connection, _ = self._socket.accept()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
        until_s = time.monotonic() + _LONGEST_S
        with connection:
            try:
                connection.sendall(self._first)
                while time.monotonic() < until_s:
                    connection.sendall(self._drop)
                    time.sleep(self._every_s)
            except OSError:
                self._is_given_up = True
