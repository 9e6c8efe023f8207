"""A server that says what a test tells it to, byte by byte, and the scraper's client for it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from trilens.collect.http_client import HttpClient
from trilens.collect.http_config import HttpConfig

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable


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


async def within(waiting: Awaitable[T]) -> T:
    return await asyncio.wait_for(waiting, PATIENCE_S)
