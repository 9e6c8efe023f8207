"""A simulated fleet as real HTTP scrape targets on loopback."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from trilens.simulate.fleet import Fleet


_POLL_S = 0.1  # how soon a server notices that it should end


class FleetTargets:
    """One port per group of nodes, all in this process; use as a context manager."""

    def __init__(
        self, fleet: Fleet, *, nodes_per_target: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        self._servers = []
        for first in range(0, fleet.nodes, nodes_per_target):
            nodes = range(first, min(first + nodes_per_target, fleet.nodes))
            self._servers.append(_Server(("127.0.0.1", 0), _handler(fleet, nodes, clock)))
        self._threads = [
            threading.Thread(target=s.serve_forever, args=(_POLL_S,), daemon=True) for s in self._servers
        ]

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{server.server_address[1]}" for server in self._servers]

    def __enter__(self) -> FleetTargets:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ThreadPoolExecutor(len(self._servers)) as pool:  # each waits until its server has noticed
            list(pool.map(_Server.shutdown, self._servers))
        for server in self._servers:
            server.server_close()
        for thread in self._threads:
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # several scrapers may come at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that hangs up is no error of the target's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(fleet: Fleet, nodes: Sequence[int], clock: Callable[[], float]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = fleet.exposition(nodes, clock())
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass  # a target that is scraped every few seconds has nothing to say about it

    return Handler
