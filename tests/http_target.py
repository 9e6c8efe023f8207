"""A scrape target on loopback whose answer the test sets."""

from __future__ import annotations

import gzip
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass
class Answer:
    body: bytes | Callable[[], bytes] = b""
    status: int = 200
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)
    compress: bool = False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may hang up when it likes
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class HttpTarget:
    """`answers` by path; requests are kept as (path, headers). Use as a context manager."""

    def __init__(self, body: bytes | str = b"", *, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {"/metrics": Answer(_bytes(body))}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.posted: list[str] = []  # of these paths, those by POST
        self.asked = threading.Semaphore(0)
        self.hold = threading.Event()  # an answer is held back until it is set
        self.hold.set()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def say(self, body: bytes | str, path: str = "/metrics", **kind: object) -> None:
        self.answers[path] = Answer(_bytes(body), **kind)  # type: ignore[arg-type]

    def __enter__(self) -> HttpTarget:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                target.requests.append((self.path, dict(self.headers)))
                target.asked.release()
                target.hold.wait(timeout=30)
                answer = target.answers.get(self.path.partition("?")[0], Answer(status=404))
                body = answer.body() if callable(answer.body) else answer.body
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                if answer.compress:
                    body = gzip.compress(body)
                    self.send_header("Content-Encoding", "gzip")
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                target.posted.append(self.path)
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _bytes(body: bytes | str) -> bytes:
    return body.encode() if isinstance(body, str) else body
