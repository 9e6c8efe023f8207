"""A server that takes records as docs/sdk-protocol.md says, and behaves as badly as it is told to."""

from __future__ import annotations

import gzip
import json
import threading
from collections import deque
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Request(NamedTuple):
    path: str
    token: str | None
    batches: list[dict[str, Any]]


class Reply(NamedTuple):
    status: int
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


class RecordsServer:
    """What it has taken is in `batches`, each once, by writer."""

    def __init__(self) -> None:
        self.batches: dict[str, list[dict[str, Any]]] = {}
        self.heartbeats: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.bad_replies: deque[Reply | Callable[[], Reply | None]] = deque()  # given before it behaves
        self.interval_s: float | None = None
        self.max_bytes: int | None = None
        self.refused: set[int] = set()  # seqs that it cannot read
        self.changed = threading.Condition()
        self.end_connections: Callable[[], None] = lambda: None

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 20) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout_s), "it did not come"

    def all_batches(self) -> list[dict[str, Any]]:
        return [batch for batches in self.batches.values() for batch in batches]

    def answer(self, request: Request, size: int) -> Reply:
        with self.changed:
            self.requests.append(request)
            try:
                return self._answer(request, size)
            finally:
                self.changed.notify_all()

    def _answer(self, request: Request, size: int) -> Reply:
        if self.bad_replies:
            bad = self.bad_replies.popleft()
            reply = bad if isinstance(bad, Reply) else bad()
            if reply is not None:
                return reply
        if self.max_bytes is not None and size > self.max_bytes:
            return Reply(413)
        taken: list[dict[str, Any]] = []
        for batch in request.batches:
            if batch["seq"] is None:
                self.heartbeats.append(batch)
                continue
            if batch["seq"] in self.refused:
                return Reply(
                    400,
                    json.dumps({"status": "error", "error": f"batch with seq {batch['seq']}: bad"}).encode(),
                )
            taken = self.batches.setdefault(batch["writer"], [])
            if not taken or batch["seq"] > taken[-1]["seq"]:
                taken.append(batch)
        data: dict[str, Any] = {"seq": taken[-1]["seq"] if taken else None}
        if self.interval_s is not None:
            data["interval_s"] = self.interval_s
        return Reply(200, json.dumps({"status": "success", "data": data}).encode())


@contextmanager
def listening(server: RecordsServer, port: int = 0) -> Iterator[str]:
    """Its address, while it is there."""
    http = _Http(("127.0.0.1", port), _handler(server))
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.end_connections = http.end_connections
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.end_connections()
        http.server_close()
        thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """As the end of a real server's process does."""
        for request in tuple(self._open):
            self.shutdown_request(request)


def _handler(server: RecordsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            batches = [json.loads(line) for line in body.splitlines()]
            reply = server.answer(Request(self.path, self.headers.get("Authorization"), batches), len(body))
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the connection was ended
                super().handle()

    return Handler
