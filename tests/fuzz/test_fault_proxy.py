"""The wire of the torture table does what it says, so that what a row shows is Trilens' own doing."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest
from bench.torture.fault_proxy import Fault, FaultProxy, Nonsense

if TYPE_CHECKING:
    from collections.abc import Iterator

HEARD: queue.Queue[tuple[str, int]] = queue.Queue()  # paths, and from which port they were asked for


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        HEARD.put((self.path, self.client_address[1]))
        self.send_response(200)
        self.send_header("Content-Length", "500")
        self.end_headers()
        self.wfile.write(b"x" * 500)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def proxy(server: Server) -> Iterator[FaultProxy]:
    with FaultProxy(server.server_port) as made:
        yield made


def heard(path: str) -> int:
    """From which port."""
    while True:
        asked, port = HEARD.get(timeout=20)
        if asked == path:
            return port


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


def test_kinds_of_nonsense_take_turns_and_begin_anew_with_each_fault(proxy: FaultProxy) -> None:
    def said() -> tuple[str, bytes] | None:
        """None where it is not even HTTP."""
        try:
            answer = httpx.get(proxy.url, timeout=20)
        except httpx.RemoteProtocolError:
            return None
        return answer.headers.get("content-type", ""), answer.content

    for _ in range(2):
        proxy.set(Fault.GARBAGE)
        assert proxy.said is None
        found = {}
        for _ in range(len(Nonsense)):
            answer = said()
            assert proxy.said is not None
            found[proxy.said] = answer
        assert list(found) == list(Nonsense)
        assert found[Nonsense.NOISE] is None
        assert found[Nonsense.EMPTY] == ("", b"")
        assert found[Nonsense.BRACES] == ("application/json", b"{}")
        kind, page = found[Nonsense.LOGIN] or ("", b"")
        assert kind.startswith("text/html")
        assert b"Log in" in page
    proxy.set(Fault.NONE)


def test_a_proxy_says_the_nonsense_that_it_is_told_to(server: Server) -> None:
    with FaultProxy(server.server_port, [Nonsense.EMPTY]) as proxy:
        proxy.set(Fault.GARBAGE)
        assert [httpx.get(proxy.url, timeout=20).content for _ in range(3)] == [b""] * 3


def test_what_is_frozen_goes_on_where_it_was(proxy: FaultProxy) -> None:
    with httpx.Client(timeout=20) as client, ThreadPoolExecutor() as others:
        client.get(f"{proxy.url}/before")
        before = heard("/before")
        proxy.set(Fault.FREEZE)
        asked = [others.submit(client.get, f"{proxy.url}/there"), others.submit(httpx.get, proxy.url)]
        with pytest.raises(TimeoutError):
            asked[0].result(0.5)
        assert not asked[1].done(), "a new one is taken, and silent"
        proxy.set(Fault.NONE)
        assert [len(one.result(20).content) for one in asked] == [500, 500]
        assert heard("/there") == before, "over the connection that was there"


def test_what_was_sent_into_a_freeze_arrives_after_it_though_nobody_waits(proxy: FaultProxy) -> None:
    with httpx.Client(timeout=20) as client:
        client.get(proxy.url)
        proxy.set(Fault.FREEZE)
        with pytest.raises(httpx.ReadTimeout):
            client.get(f"{proxy.url}/late", timeout=0.3)
    proxy.set(Fault.NONE)
    heard("/late")


def test_another_fault_ends_what_is_frozen(proxy: FaultProxy) -> None:
    with httpx.Client(timeout=20) as client, ThreadPoolExecutor() as others:
        client.get(proxy.url)
        proxy.set(Fault.FREEZE)
        asked = others.submit(client.get, proxy.url)
        with pytest.raises(TimeoutError):
            asked.result(0.2)
        proxy.set(Fault.REFUSE)
        with pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)):
            asked.result(20)
    proxy.set(Fault.NONE)
