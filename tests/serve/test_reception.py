"""How many connections there may be: counted from when they are accepted, over TLS, too."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from certificates import make_certificates
from memory_api import running
from trilens.serve import reception
from trilens.serve.reception import Connections, CountingServer, Reception
from trilens.serve.run import _connections
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from trilens.serve.http_protocol import Place

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
# Answered at once, and busy until the rest of it comes.
HALF = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n1"
REST = b"2"
OK = b"HTTP/1.1 200 OK"


def nobody(_peer: str) -> bool:
    return False


@pytest.fixture(autouse=True)
def loopback_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is exempt, and here all addresses are of it."""
    monkeypatch.setattr(reception, "is_loopback", nobody)


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Callers:
    """Of one server, from any address of loopback."""

    def __init__(self, connections: Connections, folder: Path | None = None) -> None:
        """With the folder of its certificates it speaks TLS."""
        self._options: dict[str, Any] = {"make": partial(CountingServer, connections=connections)}
        self._trust: ssl.SSLContext | None = None
        if folder is not None:
            self._options |= {"ssl_certfile": folder / "server.pem", "ssl_keyfile": folder / "server.key"}
            self._trust = ssl.create_default_context(cafile=folder / "ca.pem")
        self._open = ExitStack()
        self._server = ExitStack()

    def __enter__(self) -> Callers:
        url = self._server.enter_context(running(answering, lifespan="off", **self._options))
        self._port = int(url.rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self.stop()

    def stop(self) -> None:
        self._server.close()

    def mute(self, source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=30, source_address=(source, 0))
        return self._open.enter_context(made)

    def call(self, source: str = "127.0.0.1") -> socket.socket:
        plain = self.mute(source)
        if self._trust is None:
            return plain
        return self._open.enter_context(self._trust.wrap_socket(plain, server_hostname="localhost"))


def asked(connection: socket.socket, request: bytes = REQUEST) -> bytes:
    """The first line of the answer, which over TLS comes in two pieces."""
    with suppress(ConnectionError):  # one that is refused may be closed already
        connection.sendall(request)
    answer = connection.recv(65536)
    while answer.startswith(OK) and not answer.endswith(b"ok"):
        answer += connection.recv(65536)
    return answer.partition(b"\r\n")[0]


def ends(connection: socket.socket) -> bool:
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(("of_each", "are_let_in"), [(None, 2), (1, 1)])
def test_how_many_there_may_be_is_a_setting(of_each: int | None, are_let_in: int) -> None:
    limits = {"server.max_connections": 4, "server.max_connections_per_address": of_each}
    connections = _connections(load_settings(overrides=limits, environ={}))
    places = [connections.open(f"192.0.2.{one // 3}") for one in range(6)]
    assert [one is not None and not one.refusal for one in places] == [
        one % 3 < are_let_in for one in range(6)
    ]


def is_let_in(callers: Callers, source: str = "127.0.0.1") -> bool:
    """The other end sees that a connection is closed a turn of the loop before its place is free."""
    return any(asked(callers.call(source), HALF) == OK for _ in range(100))


def test_one_address_leaves_connections_to_others() -> None:
    proxy = "127.0.0.9"
    with Callers(Connections(100, 2, lambda peer: peer == proxy)) as callers:
        for source in ("127.0.0.1", "127.0.0.1", "127.0.0.2", *[proxy] * 4):
            assert asked(callers.call(source), HALF) == OK
        one_more = callers.call()
        assert one_more.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert one_more.recv(65536) == b""
        last = callers.call("127.0.0.2")
        assert asked(last, HALF) == OK
        assert callers.call("127.0.0.2").recv(65536).startswith(b"HTTP/1.1 503 ")
        last.close()
        assert is_let_in(callers, "127.0.0.2")


def test_who_has_a_connection_keeps_it_where_there_are_too_many() -> None:
    with Callers(Connections(2, 2, nobody)) as callers:
        first, _mute = callers.call("127.0.0.1"), callers.mute("127.0.0.2")
        refused = callers.call("127.0.0.3").recv(65536)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"server.max_connections\n" in refused
        assert asked(first) == OK


@pytest.mark.parametrize("is_secret", [False, True])
def test_who_waits_for_nothing_makes_room_the_longest_first(is_secret: bool, tmp_path: Path) -> None:
    """As processes of a training do, each of which keeps a connection from one sending to the next."""
    make_certificates(tmp_path)
    with Callers(Connections(3, 2, nobody), tmp_path if is_secret else None) as callers:
        first, second, busy = (callers.call(f"127.0.0.{one}") for one in (1, 2, 3))
        assert [asked(one) for one in (first, second, busy)] == [OK] * 3
        assert asked(first) == OK, "it has worked since the second"
        assert asked(busy, HALF) == OK
        assert asked(callers.call("127.0.0.4"), HALF) == OK
        assert ends(second)
        assert asked(callers.call("127.0.0.5"), HALF) == OK
        assert ends(first)
        assert callers.call("127.0.0.6").recv(65536).startswith(b"HTTP/1.1 503 "), "the others are busy"
        assert asked(busy, REST + REQUEST) == OK, "and keep what they have"


def test_of_one_address_its_own_make_room() -> None:
    with Callers(Connections(100, 2, nobody)) as callers:
        other = callers.call("127.0.0.2")
        own = [callers.call() for _ in range(2)]
        assert [asked(one) for one in (other, *own)] == [OK] * 3
        assert asked(callers.call()) == OK
        assert ends(own[0])
        assert [asked(one) for one in (own[1], other)] == [OK] * 2


def test_who_never_begins_tls_takes_his_own_places(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    with Callers(Connections(100, 2, nobody), tmp_path) as callers:
        mute = [callers.mute() for _ in range(2)]
        assert callers.call().recv(65536).startswith(b"HTTP/1.1 503 ")
        assert asked(callers.call("127.0.0.2")) == OK
        mute[0].sendall(b"this is no TLS")
        assert ends(mute[0])
        assert is_let_in(callers)


def test_a_stop_waits_for_nobody_who_never_begins_tls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    monkeypatch.setattr(reception, "_HANDSHAKE_S", 600.0)
    with Callers(Connections(1, 1, nobody), tmp_path) as callers:
        mute = callers.mute()
        with callers.call() as refused:  # which came later, so that the other was accepted
            assert refused.recv(65536).startswith(b"HTTP/1.1 503 ")
        callers.stop()
        assert ends(mute)


def test_tls_that_is_not_agreed_in_time_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    monkeypatch.setattr(reception, "_HANDSHAKE_S", 0.05)
    with Callers(Connections(100, 1, nobody), tmp_path) as callers:
        assert ends(callers.mute())
        monkeypatch.setattr(reception, "_HANDSHAKE_S", 60.0)
        assert is_let_in(callers)


def test_there_are_not_too_many_who_are_told_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "_REFUSED", 0)
    with Callers(Connections(100, 1, nobody)) as callers:
        assert asked(callers.call()) == OK
        assert callers.mute().recv(65536) == b""


def test_a_site_of_ipv6_is_one_address() -> None:
    held = Connections(100, 1, nobody)
    first = taken(held, "2001:db8::1")
    assert refused(held, "2001:db8::2")
    taken(held, "2001:db8:0:1::2")
    first.leave()
    first.leave()
    taken(held, "2001:db8::2")
    assert refused(held, "2001:db8::1"), "who left twice was one all the same"


def test_loopback_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    held = Connections(3, 1, nobody)
    for _ in range(3):
        taken(held, "127.0.0.1")
    assert refused(held, "127.0.0.1")


def taken(held: Connections, peer: str) -> Place:
    place = held.open(peer)
    assert place is not None
    assert not place.refusal
    return place


def refused(held: Connections, peer: str) -> bool:
    place = held.open(peer)
    return place is not None and bool(place.refusal)


class Full:
    """A listening socket of a process that has no file descriptor left, twice."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._failures: Iterator[OSError] = iter([OSError(errno.EMFILE, "Too many open files")] * 2)

    def fileno(self) -> int:
        return self._listener.fileno()

    def setblocking(self, flag: bool) -> None:
        self._listener.setblocking(flag)

    def accept(self) -> Any:
        for failure in self._failures:
            raise failure
        return self._listener.accept()


async def test_a_process_without_file_descriptors_accepts_again_soon(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reception, "_AGAIN_S", 0.01)
    met = asyncio.Event()

    class Meeting(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            met.set()
            transport.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        full: Any = Full(listener)
        receiving = Reception(full, Connections(1, 1, nobody), lambda _place: Meeting(), None)
        receiving.open()
        with socket.create_connection(listener.getsockname()):
            await asyncio.wait_for(met.wait(), 60)
        receiving.close()
        await receiving.wait_closed()
    assert [one.message for one in caplog.records] == ["connections wait to be accepted"], "not every time"
