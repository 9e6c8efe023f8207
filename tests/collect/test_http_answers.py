"""What servers answer, well or badly, over real connections."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import suppress
from functools import partial

import pytest
from scripted_http import BODY, PATIENCE_S, Script, answer, chunked, client_of, fetch, running, within

from trilens.collect.body_buffer import BodyBuffers
from trilens.collect.http_answer import Answer, AnswerReader
from trilens.model.errors import ScrapeError, ScrapeLimitExceeded

# Without the time of its making: a test's name must be the same wherever it is collected.
gzipped = partial(gzip.compress, mtime=0)


@pytest.mark.parametrize(
    "said",
    [
        answer(BODY),
        answer(chunked(BODY), "Transfer-Encoding: chunked", length=False),
        answer(
            chunked(BODY, trailer="Content-Encoding: gzip\r\n"), "Transfer-Encoding: chunked", length=False
        ),
        answer(gzipped(BODY), "Content-Encoding: gzip "),
        answer(gzipped(BODY[:7]) + gzipped(BODY[7:]) + bytes(8), "Content-Encoding: gzip"),
        answer(
            chunked(gzipped(BODY), 1000),
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
        (answer(gzipped(BODY)[:-1], "Content-Encoding: gzip"), "the gzip answer is cut short"),
        (
            answer(chunked(b"abc")[:-5], "Transfer-Encoding: chunked \t", length=False),
            "in the middle of its answer",
        ),
        (
            answer(gzipped(b"a") + gzipped(BODY)[:-1], "Content-Encoding: gzip"),
            "gzip answer is cut short",
        ),
        (answer(gzipped(b"a") + b"rubbish", "Content-Encoding: gzip"), "not valid gzip"),
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
        answer(gzipped(b"x" * 101), "Content-Encoding: gzip"),
        answer(gzipped(b"x" * 51) + gzipped(b"x" * 50), "Content-Encoding: gzip"),
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
