"""What browsers may do with answers, how large a request may be, and how slow."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from trilens.serve import http_protocol, runner
from trilens.serve.app import all_routes
from trilens.serve.http_protocol import MOST_HEAD_BYTES, LimitedHttp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Message, Receive, Scope, Send

CHUNK = 256 * 1024
MOST = 1 << 20  # as memory_api has it


async def get(api: Api, path: str, **headers: str) -> httpx.Response:
    inside = httpx.ASGITransport(api.build(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize("path", ["/api/v1/query?query=1", "/metrics", "/nowhere", "/healthz", "/auth/me"])
async def test_no_answer_is_framed_guessed_at_or_kept(path: str) -> None:
    answer = await get(Api(), path)
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "strict-transport-security" not in answer.headers


async def test_pages_have_a_policy_of_their_own() -> None:
    policy = (await get(Api(), "/money")).headers["content-security-policy"]
    assert "default-src 'self'" in policy or "default-src 'none'" in policy  # where it is not built
    assert "frame-ancestors 'none'" in policy


async def test_who_is_reached_by_https_says_so() -> None:
    api = Api(overrides={"server.external_url": "https://trilens.example"})
    assert "max-age" in (await get(api, "/auth/me")).headers["strict-transport-security"]


async def test_no_route_reads_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets a body that does not end, and does not say how large it is."""

    async def never(_request: object) -> None:  # it would read on, and keep nothing of it
        await asyncio.Event().wait()

    monkeypatch.setattr(runner, "client_gone", never)
    api = Api(overrides={"server.max_body": MOST})
    app = api.build()
    greedy = []
    for route in all_routes(api.parts()):
        for method in sorted((route.methods or set()) - {"GET", "HEAD"}):
            read = await bytes_read(app, method, route.path.replace("{", "").replace("}", ""))
            if read > MOST + CHUNK:
                greedy.append((method, route.path, read))
    assert greedy == []


async def bytes_read(app: Any, method: str, path: str) -> int:
    """Until it has had enough, or far too much."""
    read = 0

    async def receive() -> Message:
        nonlocal read
        if read > 8 * MOST:
            return {"type": "http.disconnect"}
        read += CHUNK
        return {"type": "http.request", "body": b"x" * CHUNK, "more_body": True}

    async def send(_message: Message) -> None:
        pass

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/x-www-form-urlencoded"),
            (b"content-encoding", b""),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    try:
        await app(scope, receive, send)
    except Exception:
        return read
    return read


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def raw_server(app: Any = answering) -> Iterator[int]:
    with running(app, http=LimitedHttp, lifespan="off") as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with raw_server() as found:
        yield found


def exchange(port: int, *parts: bytes) -> bytes:
    """All that is answered until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:
                break
        answer = b""
        try:
            while more := connection.recv(65536):
                answer += more
        except ConnectionError:
            pass
        return answer


def request(head: bytes = b"", url: bytes = b"/") -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: localhost\r\n%b" % (url, head)


def test_an_ordinary_request_and_the_next_one_on_the_same_connection(port: int) -> None:
    large = b"x: %b\r\n" % (b"y" * (MOST_HEAD_BYTES // 2))
    answer = exchange(port, request(large) + b"\r\n", request(large) + b"connection: close\r\n\r\n")
    assert answer.count(b"200 OK") == 2


@pytest.mark.parametrize(
    "parts",
    [
        (request(b"x: %b\r\n\r\n" % (b"y" * 100_000)),),
        (request(b"".join(b"x%d: y\r\n" % at for at in range(20_000))) + b"\r\n",),
        (request(url=b"/?%b" % (b"q" * 100_000)) + b"\r\n",),
        (request(b"x: "), *(b"y" * 10_000 for _ in range(20))),  # and it never ends
    ],
)
def test_a_head_that_is_too_large_is_refused(port: int, parts: tuple[bytes, ...]) -> None:
    assert exchange(port, *parts).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nhost: local"])
def test_a_head_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(http_protocol, "_HEAD_S", 0.05)
    with raw_server() as port:
        assert exchange(port, begun) == b""


POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n"


async def reading(_scope: Scope, receive: Receive, send: Send) -> None:
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await answering(_scope, receive, send)


def test_a_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_BODY_S", 0.05)
    with raw_server(reading) as port:
        assert exchange(port, POST, b"slow").startswith(b"HTTP/1.1 408 ")


def test_the_rest_of_a_request_that_was_answered_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of somebody without a token, who goes on sending."""
    monkeypatch.setattr(http_protocol, "_BODY_S", 0.05)
    monkeypatch.setattr(http_protocol, "_BODY_BYTES", 0)
    with raw_server() as port:
        answer = exchange(port, POST, b"more")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"408" not in answer


def test_a_body_that_comes_fast_enough_or_is_held_up_by_the_server_may_take_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than a span passes before its end is sent."""
    monkeypatch.setattr(http_protocol, "_BODY_S", 0.05)
    spans = threading.Semaphore(0)
    look = LimitedHttp._look_at_body

    def counted(protocol: LimitedHttp) -> None:
        look(protocol)
        spans.release()

    async def busy(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.to_thread(lambda: [spans.acquire(timeout=60) for _ in range(3)])
        await reading(scope, receive, send)

    monkeypatch.setattr(LimitedHttp, "_look_at_body", counted)
    with raw_server(busy) as port:
        body = b"x" * 1_000_000  # more than is taken ahead
        closing = POST.replace(b"host:", b"connection: close\r\nhost:")
        assert exchange(port, closing, body).startswith(b"HTTP/1.1 200 ")
    while spans.acquire(blocking=False):
        pass
    monkeypatch.setattr(http_protocol, "_BODY_BYTES", 0)
    with raw_server(reading) as port, socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(POST)
        assert all(spans.acquire(timeout=60) for _ in range(3))
        connection.sendall(b"x" * 1_000_000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_still_a_bad_request(port: int) -> None:
    assert exchange(port, b"\x16\x03\x01 nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
