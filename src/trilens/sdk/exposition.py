"""/metrics over HTTP, in a thread of its own. Not http.server: that loads megabytes for one answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from itertools import product
from time import monotonic
from typing import TYPE_CHECKING, Final

from trilens.sdk.guard import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.sdk.guard import Guard

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PORTS_TRIED: Final = 64  # upwards from the wanted one, then any free one
_REQUEST_BYTES: Final = 16 * 1024
_CLIENT_S: Final = 2.0


class MetricsPort:
    """Listens from when it is made; `address` is host:port, None where no port could be had."""

    def __init__(self, text: Callable[[], str], host: str, port: int, guard: Guard) -> None:
        self._text = text
        self._guard = guard
        self._socket: socket.socket | None = guard.run("metrics port", _listen, host, port, guard)
        self.address: str | None = None
        if self._socket is not None:
            bound_host, bound_port = self._socket.getsockname()[:2]
            self.address = (
                f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"
            )
            threading.Thread(target=self._serve, name="trilens-metrics", daemon=True).start()

    def close(self) -> None:
        listening, self._socket = self._socket, None
        if listening is not None:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            listening.close()

    def abandon(self) -> None:
        """In a forked child: the port is the parent's. Its connection is not shut down, only left alone."""
        listening, self._socket = self._socket, None
        if listening is not None:
            listening.close()

    def _serve(self) -> None:
        listening = self._socket
        while listening is not None:
            try:
                client, _ = listening.accept()
            except OSError as error:
                if self._socket is None:  # closed
                    return
                self._guard.lost("scrape", why=describe(error))
                threading.Event().wait(0.1)  # out of file descriptors: they may come back
                continue
            with client:
                self._guard.run("scrape", self._answer, client)

    def _answer(self, client: socket.socket) -> None:
        request = b""
        until_s = monotonic() + _CLIENT_S  # of the whole request: the next one waits
        try:
            while b"\r\n\r\n" not in request and len(request) < _REQUEST_BYTES:
                client.settimeout(max(0.001, until_s - monotonic()))
                received = client.recv(4096)
                if not received:
                    return
                request += received
            client.settimeout(_CLIENT_S)
            client.sendall(self._response(request))
        except OSError:
            return  # a scraper that went away has lost nothing of ours

    def _response(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, body, kind = "405 Method Not Allowed", b"only GET\n", "text/plain"
        elif path in (b"/metrics", b"/"):
            status, body, kind = "200 OK", self._text().encode("utf-8", "replace"), CONTENT_TYPE
        else:
            status, body, kind = "404 Not Found", b"see /metrics\n", "text/plain"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == b"HEAD" else body)


def _listen(host: str, port: int, guard: Guard) -> socket.socket | None:
    """On the first free port from `port` on; a port in use is nothing to fail for."""
    hosts = [host]
    if not host:  # every interface: of both protocols, where the machine has both
        hosts = ["::", "0.0.0.0"] if socket.has_dualstack_ipv6() else ["0.0.0.0"]  # noqa: S104 - whoever scrapes a pod is outside
    error: OSError | None = None
    wanted = [*range(port, min(port + PORTS_TRIED, 65536)), 0] if port else [0]
    for host, candidate in product(hosts, wanted):
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            # A restarted rank takes its port back while old connections linger; Linux still refuses a
            # port that another program listens on.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if host == "::":
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.bind((host, candidate))
            listening.listen(16)
        except OSError as e:
            listening.close()
            error = e
            continue
        return listening
    guard.lost("metrics port", why=f"{hosts[0]}:{port}: {error}")
    return None
