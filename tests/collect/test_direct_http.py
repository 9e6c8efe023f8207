"""What servers answer, well or badly, over real connections."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from aiohappyeyeballs import start_connection

from certificates import make_certificates
from http_target import HttpTarget
from trilens.collect import direct_http
from trilens.collect.body_buffer import BodyBuffers, ReceiveMemory
from trilens.collect.direct_http import DirectHttp
from trilens.collect.http_answer import Answer, AnswerReader, HttpFailure
from trilens.collect.http_client import HttpClient
from trilens.collect.http_config import HttpConfig
from trilens.collect.http_request import build_request
from trilens.model.errors import ConfigError, ScrapeError, ScrapeLimitExceeded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

BODY = bytes(range(256)) * 5000  # more than any one buffer holds
PATIENCE_S = 20
T = TypeVar("T")


class Script:
    """A server that gives each request the next of `answers`, the last one for ever; None: never answers.

    With `then_close` it closes the connection after each answer.
    """

    def __init__(self, *answers: bytes | None, then_close: bool = False) -> None:
        self.answers = list(answers)
        self.then_close = then_close
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()  # a client has ended a connection
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.add(writer)
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                self.asked.set()
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
                    if self.then_close:
                        return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up.set()
        finally:
            self.writers.discard(writer)
            writer.close()

    def url(self, path: str = "/metrics", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def running(
    script: Script, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Script]:
    server = await asyncio.start_server(script.serve, host, 0, ssl=tls)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()
        for writer in list(script.writers):
            writer.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def client_of(**config: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(HttpConfig.model_validate(config))
    try:
        yield client
    finally:
        await client.close()


async def fetch(url: str, *, timeout_s: float = PATIENCE_S, body_limit: int = 0, **config: Any) -> bytes:
    async with client_of(**config) as client:
        return (await client.get(url, {}, timeout_s=timeout_s, body_limit=body_limit)).body


def answer(body: bytes, *headers: str, status: str = "HTTP/1.1 200 OK", length: bool = True) -> bytes:
    told = [f"Content-Length: {len(body)}"] if length else []
    return "\r\n".join([status, *told, *headers, "", ""]).encode() + body


def chunked(body: bytes, size: int = 100_000, trailer: str = "") -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    coded = b"".join(b"%x;some=extension\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return coded + f"0\r\n{trailer}\r\n".encode()


@pytest.mark.parametrize(
    "said",
    [
        answer(BODY),
        answer(chunked(BODY), "Transfer-Encoding: chunked", length=False),
        answer(
            chunked(BODY, trailer="Content-Encoding: gzip\r\n"), "Transfer-Encoding: chunked", length=False
        ),
        answer(gzip.compress(BODY), "Content-Encoding: gzip "),
        answer(gzip.compress(BODY[:7]) + gzip.compress(BODY[7:]) + bytes(8), "Content-Encoding: gzip"),
        answer(
            chunked(gzip.compress(BODY), 1000),
            "Transfer-Encoding: chunked",
            "Content-Encoding: GZIP",
            length=False,
        ),
        b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early\r\nContent-Encoding: br\r\n\r\n"
        + answer(BODY),
        answer(BODY).replace(b"\r\n", b"\n", 3),
        answer(BODY, status="HTTP/1.1 200"),
    ],
    ids=[
        "length",
        "chunked",
        "trailer",
        "gzip",
        "gzip twice",
        "chunked gzip",
        "interim",
        "bare line feeds",
        "no reason",
    ],
)
async def test_a_body_is_read_whole_and_the_connection_kept(said: bytes) -> None:
    async with running(Script(said)) as server, client_of() as client:
        for _ in range(3):
            response = await client.get(server.url(), {}, timeout_s=PATIENCE_S)
            assert response.body == BODY
    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize(
    ("said", "then_close"),
    [
        (answer(BODY, length=False), True),
        (answer(BODY, "Connection: close", length=False), True),
        (answer(BODY, status="HTTP/1.0 200 OK"), False),
        (answer(BODY, status="HTTP/1.0 200 OK", length=False), True),
        (answer(BODY, "Connection: close"), False),
        (answer(BODY) + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother", False),
        (answer(b"x") + b"\0", False),
        (answer(b"") + answer(b"other"), False),
    ],
    ids=[
        "end",
        "end, said",
        "1.0",
        "1.0, end",
        "close",
        "two answers",
        "rubbish after",
        "empty, two answers",
    ],
)
async def test_a_connection_that_cannot_be_used_again_is_not(said: bytes, then_close: bool) -> None:
    async with running(Script(said, then_close=then_close)) as server, client_of() as client:
        bodies = {(await client.get(server.url(), {}, timeout_s=PATIENCE_S)).body for _ in range(2)}
        assert server.connections == 2
    assert bodies <= {BODY, b"x", b""}
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("said", "reusable"),
    [
        (answer(BODY), True),
        (answer(BODY) + b"x", False),
        (answer(b"x"), True),
        (answer(b"x") + b"\0", False),
        (answer(b"", status="HTTP/1.1 404 Not Found"), True),
        (answer(b"x", status="HTTP/1.1 404 Not Found")[:-1], False),
        (answer(b"", "Upgrade: h2", "Connection: upgrade", status="HTTP/1.1 101 Go On", length=False), False),
    ],
)
def test_one_byte_too_many_or_too_few_is_seen(said: bytes, reusable: bool) -> None:
    reader = AnswerReader(memoryview(bytearray(1000)), BodyBuffers())
    complete = read(reader, said)
    assert complete is not None
    assert complete.body in (BODY, b"x", b"")
    assert reader.reusable == reusable


def test_the_memory_of_a_body_is_used_again_also_after_one_that_broke_off() -> None:
    buffers = BodyBuffers()
    memory = buffers.take()
    buffers.give_back(memory)
    reader = AnswerReader(memoryview(bytearray(1000)), buffers)
    body = BODY[: len(memory) // 2]
    assert read(reader, answer(body)) is not None
    reader.begin(0)
    assert read(reader, answer(body)[:-1]) is None
    reader.drop()
    assert buffers.take() is memory


def test_little_memory_is_kept_for_bodies_to_come() -> None:
    buffers = BodyBuffers()
    enormous = bytearray(64 * 1024 * 1024)
    taken = [buffers.take() for _ in range(10)]
    for memory in (enormous, *taken):
        buffers.give_back(memory)
    kept = [
        memory for memory in (buffers.take() for _ in range(10)) if any(memory is known for known in taken)
    ]
    assert len(kept) == 4
    assert buffers.take() is not enormous


def read(reader: AnswerReader, said: bytes) -> Answer | None:
    """As the event loop does it: no more at a time than there is room for."""
    complete = None
    while said and complete is None:
        room = reader.room()
        piece, said = said[: len(room)], said[len(room) :]
        room[: len(piece)] = piece
        complete = reader.received(len(piece))
    return complete


async def test_http_1_0_can_keep_a_connection_too() -> None:
    kept = answer(BODY, "Connection: keep-alive", status="HTTP/1.0 200 OK")
    async with running(Script(kept)) as server, client_of() as client:
        for _ in range(2):
            await client.get(server.url(), {}, timeout_s=PATIENCE_S)
    assert server.connections == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(BODY)[:-1], "in the middle of its answer"),
        (answer(chunked(BODY)[:-1], "Transfer-Encoding: chunked", length=False), "in the middle"),
        (answer(gzip.compress(BODY)[:-1], "Content-Encoding: gzip"), "the gzip answer is cut short"),
        (
            answer(chunked(b"abc")[:-5], "Transfer-Encoding: chunked \t", length=False),
            "in the middle of its answer",
        ),
        (
            answer(gzip.compress(b"a") + gzip.compress(BODY)[:-1], "Content-Encoding: gzip"),
            "gzip answer is cut short",
        ),
        (answer(gzip.compress(b"a") + b"rubbish", "Content-Encoding: gzip"), "not valid gzip"),
        (answer(BODY)[:20], "in the middle of its answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "in the middle of its answer"),
        (b"", "closed the connection without an answer"),
        (b"220 mail.example ESMTP\r\n", "not valid HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x50", "not valid HTTP"),
        (answer(b"abc", "Content-Length: 4"), "not valid HTTP"),
        (answer(b"zz\r\nabc", "Transfer-Encoding: chunked", length=False), "not valid HTTP"),
        (answer(b"", "X: y" * 100_000), "bytes came that are not body"),
        (answer(b"", *(["X: y"] * 100_000)), "bytes came that are not body"),
        (
            answer(chunked(b"abc", trailer="X: y" * 100_000), "Transfer-Encoding: chunked", length=False),
            "bytes came that are not body",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "bytes came that are not body"),
        (answer(b"", status="HTTP/1.1 204 No Content", length=False), "the server answered 204 No Content"),
        (
            answer(b"", "Content-Length: 9", status="HTTP/1.1 304 Not Modified", length=False),
            "answered 304 Not",
        ),
        (answer(b"", status="HTTP/1.1 101 Switching Protocols", length=False), "the server answered 101"),
        (answer(b"no", status="HTTP/1.1 404 Not Found"), "the server answered 404 Not Found"),
        (answer(b"no", status="HTTP/1.1 500"), "the server answered 500"),
        (answer(b"no", "Content-Encoding: br"), "'br', which was not asked for"),
    ],
)
async def test_a_bad_answer_is_an_error_that_says_what_is_wrong(said: bytes, reason: str) -> None:
    async with running(Script(said, then_close=True)) as server:
        with pytest.raises(ScrapeError, match=reason):
            await fetch(server.url())
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "said",
    [
        answer(b"")[:-4] + b"0" * 1000,  # a head that does not go on
        answer(BODY)[:-1],
        answer(chunked(BODY)[:-1], "Transfer-Encoding: chunked", length=False),
        answer(BODY, length=False),
        None,
    ],
    ids=["head", "length", "chunked", "until the end", "nothing"],
)
async def test_time_is_for_the_whole_exchange_and_ends_the_connection(said: bytes | None) -> None:
    async with running(Script(said)) as server, client_of() as client:
        with pytest.raises(ScrapeError, match=r"no complete answer within 0\.1 s"):
            await client.get(server.url(), {}, timeout_s=0.1)
        await within(server.hung_up.wait())
        server.answers = [answer(b"a 1\n")]
        assert (await client.get(server.url(), {}, timeout_s=PATIENCE_S)).body == b"a 1\n"


async def test_a_slow_drip_does_not_stretch_the_time() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(BODY)[:100])
        while not reader.at_eof() and not writer.is_closing():
            writer.write(b"x")
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1000), 0.01)
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ScrapeError, match=r"no complete answer within 0\.2 s"):
        await fetch(f"http://127.0.0.1:{port}/", timeout_s=0.2)
    server.close()


async def test_a_scrape_that_is_cancelled_ends_its_connection() -> None:
    async with running(Script(None)) as server, client_of() as client:
        scrape = asyncio.create_task(client.get(server.url(), {}, timeout_s=PATIENCE_S))
        await within(server.asked.wait())
        scrape.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scrape
        await within(server.hung_up.wait())


@pytest.mark.parametrize(
    "said",
    [
        answer(BODY),
        answer(BODY)[:-1],
        answer(b"x" * 101),
        answer(chunked(BODY), "Transfer-Encoding: chunked", length=False),
        answer(BODY, length=False),
        answer(gzip.compress(b"x" * 101), "Content-Encoding: gzip"),
        answer(gzip.compress(b"x" * 51) + gzip.compress(b"x" * 50), "Content-Encoding: gzip"),
    ],
)
async def test_a_body_above_the_limit_is_not_read(said: bytes) -> None:
    async with running(Script(said)) as server:
        with pytest.raises(ScrapeLimitExceeded, match="body_size_limit of 100 exceeded"):
            await fetch(server.url(), body_limit=100)
        await within(server.hung_up.wait())


async def test_a_body_at_the_limit_is_read() -> None:
    async with running(Script(answer(BODY), answer(b"x" * 100))) as server:
        assert await fetch(server.url(), body_limit=len(BODY)) == BODY
        assert await fetch(server.url(), body_limit=100) == b"x" * 100


async def test_a_length_that_is_a_lie_takes_no_memory() -> None:
    said = answer(b"x", f"Content-Length: {10**15}", length=False)
    async with running(Script(said, then_close=True)) as server:
        with pytest.raises(ScrapeError, match="in the middle"):
            await fetch(server.url())


async def test_a_connection_that_the_server_gave_up_is_replaced_without_a_word() -> None:
    async with running(Script(answer(b"a"), b"", answer(b"c"))) as server, client_of() as client:
        assert (await client.get(server.url(), {}, timeout_s=PATIENCE_S)).body == b"a"
        server.then_close = True  # with the request already sent, and not a byte of an answer
        assert (await client.get(server.url(), {}, timeout_s=PATIENCE_S)).body == b"c"
        assert (server.connections, len(server.requests)) == (2, 3)


async def test_an_answer_that_breaks_off_is_not_asked_for_again() -> None:
    async with running(Script(answer(b"a"), b"H", answer(b"c"))) as server, client_of() as client:
        await client.get(server.url(), {}, timeout_s=PATIENCE_S)
        server.then_close = True
        with pytest.raises(ScrapeError, match="in the middle"):
            await client.get(server.url(), {}, timeout_s=PATIENCE_S)
        assert len(server.requests) == 2


async def test_a_new_connection_without_an_answer_is_not_tried_again() -> None:
    async with running(Script(b"", then_close=True)) as server:
        with pytest.raises(ScrapeError, match="without an answer"):
            await fetch(server.url())
        assert len(server.requests) == 1


def direct(idle_s: float) -> DirectHttp:
    return DirectHttp(ssl.create_default_context, ReceiveMemory(), idle_s=idle_s)


async def test_idle_connections_are_closed_and_then_made_anew() -> None:
    async with running(Script(answer(b"a"))) as server:
        client = direct(idle_s=0.05)
        request = build_request(server.url(), [])
        assert (await client.get(request, 0)).body == b"a"
        await within(server.hung_up.wait())
        assert (await client.get(request, 0)).body == b"a"
        assert server.connections == 2
        await client.close()


async def test_requests_at_the_same_time_have_a_connection_each_and_leave_them_for_the_next() -> None:
    async with running(Script(answer(BODY))) as server, client_of() as client:
        for _ in range(3):
            paths = [server.url(f"/{i}") for i in range(7)]
            responses = await asyncio.gather(*(client.get(url, {}, timeout_s=PATIENCE_S) for url in paths))
            assert {response.body for response in responses} == {BODY}
        assert server.connections == 7


async def test_closing_ends_every_connection_idle_or_not() -> None:
    async with running(Script(answer(b"a"), None)) as server:
        client = direct(idle_s=PATIENCE_S)
        await client.get(build_request(server.url(), []), 0)
        server.asked.clear()
        under_way = asyncio.create_task(client.get(build_request(server.url("/2"), []), 0))
        await within(server.asked.wait())
        await within(client.close())
        with pytest.raises(HttpFailure):
            await under_way
        await within(server.hung_up.wait())
        await asyncio.sleep(0)
        assert not server.writers


async def test_what_a_server_says_unasked_ends_the_connection() -> None:
    async with running(Script(answer(b"a"))) as server, client_of() as client:
        await client.get(server.url(), {}, timeout_s=PATIENCE_S)
        (writer,) = server.writers
        writer.write(answer(b"unasked"))
        await within(server.hung_up.wait())
        assert (await client.get(server.url(), {}, timeout_s=PATIENCE_S)).body == b"a"
        assert server.connections == 2


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", b"GET / HTTP/1.1"),
        ("?a=b", b"GET /?a=b HTTP/1.1"),
        ("/a%20b/../c//d?x=%2F&y=[1]+{2}#part", b"GET /a%20b/../c//d?x=%2F&y=[1]+{2} HTTP/1.1"),
        ("/ü", "GET /ü HTTP/1.1".encode()),
    ],
)
async def test_path_and_query_are_sent_as_they_are(path: str, line: bytes) -> None:
    async with running(Script(answer(b""))) as server:
        await fetch(server.url(path))
        assert server.requests[0].split(b"\r\n")[0] == line


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/a\tb", "/a\x7f"])
async def test_a_path_that_would_break_the_request_is_not_sent(path: str) -> None:
    async with running(Script(answer(b""))) as server:
        with pytest.raises(ScrapeError, match="space or a control character"):
            await fetch(server.url(path))
        assert server.requests == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://gpu-1:80/", "gpu-1"),
        ("http://gpu-1:443/", "gpu-1:443"),
        ("https://gpu-1/", "gpu-1"),
        ("https://GPU-1:80/", "gpu-1:80"),
        ("http://[fe80::1]/", "[fe80::1]"),
        ("http://[::1]:9100/", "[::1]:9100"),
        ("http://bücher.example:1/", "xn--bcher-kva.example:1"),
    ],
)
def test_the_host_header_names_a_port_that_is_not_the_usual_one(url: str, host: str) -> None:
    assert f"\r\nHost: {host}\r\n".encode() in build_request(url, []).head


@pytest.mark.parametrize(
    "url",
    ["http:///metrics", "ftp://host/", "http://host:x/", "http://host:70000/", "http://[::1/", "http://"],
)
async def test_an_address_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(ScrapeError, match="GET "):
        await fetch(url)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0", "\r"])
async def test_a_header_cannot_bring_another(value: str) -> None:
    headers = {"X-A": {"secrets": [value]}}
    async with running(Script(answer(b""))) as server:
        with pytest.raises(ScrapeError, match="the value of the header 'X-A'") as failed:
            await fetch(server.url(), http_headers=headers)
        assert value not in str(failed.value)
        with pytest.raises((ScrapeError, ConfigError), match="cannot be the name of a header"):
            await fetch(server.url(), http_headers={"X A:": {"values": ["a"]}})
        assert server.requests == []


async def test_headers_are_those_of_the_caller_then_of_the_configuration() -> None:
    config: dict[str, Any] = {
        "basic_auth": {"username": "me", "password": "ä:b"},
        "http_headers": {
            "accept": {"values": ["not this"]},
            "user-agent": {"values": ["mine"]},
            "X-Two": {"values": ["a", "b ü"]},
        },
    }
    async with running(Script(answer(b""))) as server, client_of(**config) as client:
        await client.get(server.url(), {"Accept": "this"}, timeout_s=PATIENCE_S, gzip=False)
        await client.get(server.url(), {"Accept": "that"}, timeout_s=PATIENCE_S)
    first, second = (request.decode().split("\r\n")[1:-2] for request in server.requests)
    assert sorted(first) == sorted(
        [
            f"Host: 127.0.0.1:{server.port}",
            "Authorization: Basic bWU6w6Q6Yg==",
            "user-agent: mine",
            "X-Two: a",
            "X-Two: b ü",
            "Accept: this",
            "Accept-Encoding: identity",
        ]
    )
    assert {"Accept: that", "Accept-Encoding: gzip"} <= set(second)


async def test_a_user_in_the_address_signs_in() -> None:
    async with running(Script(answer(b"a"))) as server:
        assert await fetch(f"http://me:secret@127.0.0.1:{server.port}/") == b"a"
        assert b"Authorization: Basic bWU6c2VjcmV0\r\n" in server.requests[0]


async def test_a_redirect_is_followed_only_when_told_to() -> None:
    moved = answer(b"gone", "Location: /new", status="HTTP/1.1 302 Found")
    async with running(Script(moved, moved, answer(b"a"))) as server:
        assert await fetch(server.url()) == b"a"
        assert server.requests[-1].startswith(b"GET /new ")
    async with running(Script(moved)) as server:
        with pytest.raises(ScrapeError, match="the server answered 302 Found"):
            await fetch(server.url(), follow_redirects=False)
        assert len(server.requests) == 1


async def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(ScrapeError, match="cannot connect: Connection refused"):
            await fetch(f"http://{host}:{port}/")
    with pytest.raises(ScrapeError, match="cannot connect: "):
        await fetch("http://nowhere.invalid/")


async def test_an_ipv6_address() -> None:
    async with running(Script(answer(b"a")), host="::1") as server:
        assert await fetch(server.url(host="[::1]")) == b"a"
        assert f"Host: [::1]:{server.port}\r\n".encode() in server.requests[0]


async def test_a_host_is_reached_by_whichever_of_its_addresses_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The names of this machine have one address each, so two that refuse are put before it."""

    async def several(addresses: list[Any], **named: Any) -> socket.socket:
        (known,) = addresses
        refusing = [(*known[:4], (host, known[4][1])) for host in ("127.0.0.2", "127.0.0.3")]
        return await start_connection([*refusing, known], **named)

    monkeypatch.setattr(direct_http, "start_connection", several)
    async with running(Script(answer(b"a"))) as server:
        assert await fetch(server.url()) == b"a"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def server_tls(folder: Path, *, client_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    if client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
    return context


async def test_tls_with_an_authority_of_ones_own(certificates: Path) -> None:
    trusting = {"ca_file": str(certificates / "ca.pem")}
    chunks = answer(chunked(BODY), "Transfer-Encoding: chunked", length=False)
    async with running(Script(answer(BODY), chunks), tls=server_tls(certificates)) as server:
        async with client_of(tls_config=trusting) as client:
            url = server.url(host="localhost", scheme="https")
            for _ in range(3):
                assert (await client.get(url, {}, timeout_s=PATIENCE_S)).body == BODY
            assert server.connections == 1
        url = server.url(scheme="https")
        with pytest.raises(ScrapeError, match="certificate is not accepted: IP address mismatch"):
            await fetch(url, tls_config=trusting)
        assert await fetch(url, tls_config={**trusting, "server_name": "localhost"}) == BODY
        with pytest.raises(ScrapeError, match="certificate is not accepted: unable to get local issuer"):
            await fetch(url)
        assert await fetch(url, tls_config={"insecure_skip_verify": True}) == BODY
        with pytest.raises(ScrapeError, match="closed"):
            await fetch(server.url())  # without TLS


async def test_a_client_certificate(certificates: Path) -> None:
    trusting = {"ca_file": str(certificates / "ca.pem")}
    own = {"cert_file": str(certificates / "client.pem"), "key_file": str(certificates / "client.key")}
    with HttpTarget(BODY, tls=server_tls(certificates, client_certificate=True)) as target:
        url = f"https://localhost:{target.address.partition(':')[2]}/metrics"
        assert await fetch(url, tls_config={**trusting, **own}) == BODY
        with pytest.raises(ScrapeError, match="TLS: tlsv13 alert certificate required"):
            await fetch(url, tls_config=trusting)


async def test_https_to_a_server_that_speaks_http() -> None:
    with HttpTarget() as target, pytest.raises(ScrapeError, match="cannot connect: TLS: "):
        await fetch(f"https://{target.address}/metrics")


async def test_a_tls_answer_that_ends_with_the_connection(certificates: Path) -> None:
    said = Script(answer(BODY, length=False), then_close=True)
    async with running(said, tls=server_tls(certificates)) as server:
        url = server.url(scheme="https")
        assert await fetch(url, tls_config={"insecure_skip_verify": True}) == BODY


async def test_a_tls_answer_without_an_end_is_not_taken_for_whole(certificates: Path) -> None:
    """Without a length, only the goodbye of TLS tells a whole body from one that somebody cut off."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"half", length=False))
        await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(cut, "127.0.0.1", 0, ssl=server_tls(certificates))
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ScrapeError, match="connection"):
        await fetch(f"https://127.0.0.1:{port}/", tls_config={"insecure_skip_verify": True})
    server.close()


async def within(waiting: Awaitable[T]) -> T:
    return await asyncio.wait_for(waiting, PATIENCE_S)
