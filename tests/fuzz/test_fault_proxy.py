"""The wire of the torture table does what it says, so that what a row shows is Trilens' own doing."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest
from bench.torture.fault_proxy import Fault, FaultProxy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "500")
        self.end_headers()
        self.wfile.write(b"x" * 500)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    with FaultProxy(server.server_port) as made:
        yield made
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.REFUSE, httpx.ConnectError),
        (Fault.HANG, httpx.ReadTimeout),
        (Fault.GARBAGE, ValueError),
    ],
)
def test_a_fault_and_its_end(proxy: FaultProxy, fault: Fault, error: type[Exception]) -> None:
    proxy.set(fault)
    with pytest.raises(error):
        httpx.get(proxy.url, timeout=0.5 if fault is Fault.HANG else 20).json()
    proxy.set(Fault.NONE)
    assert len(httpx.get(proxy.url, timeout=20).content) == 500


def test_what_trickles_comes_whole(proxy: FaultProxy) -> None:
    proxy.set(Fault.TRICKLE)
    with httpx.stream("GET", proxy.url, timeout=20) as answer:
        pieces = [*answer.iter_raw()]
    proxy.set(Fault.NONE)
    assert (sum(map(len, pieces)), len(pieces) > 2) == (500, True)


def test_a_fault_ends_the_connections_that_are_there(proxy: FaultProxy) -> None:
    with httpx.Client(timeout=20) as client:
        assert client.get(proxy.url).status_code == 200
        proxy.set(Fault.REFUSE)
        with pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)):
            client.get(proxy.url)
    proxy.set(Fault.NONE)
