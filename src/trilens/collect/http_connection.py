"""One connection to a server, which carries one exchange at a time."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING, Protocol, cast

from trilens.collect.http_answer import Answer, AnswerReader, HttpFailure
from trilens.model.errors import ScrapeLimitExceeded

if TYPE_CHECKING:
    from trilens.collect.http_request import Origin


class Keeper(Protocol):
    """Who looks after the connections."""

    def connected(self, connection: HttpConnection) -> None: ...

    def lost(self, connection: HttpConnection) -> None: ...


class HttpConnection(asyncio.BufferedProtocol):
    _transport: asyncio.Transport

    def __init__(self, origin: Origin, keeper: Keeper, reader: AnswerReader) -> None:
        self.origin = origin
        self.ended = asyncio.Event()
        self.idle_since = 0.0  # on the event loop's clock
        self._keeper = keeper
        self._reader = reader
        self._awaited: asyncio.Future[Answer] | None = None

    async def exchange(self, request_head: bytes, body_limit: int) -> Answer:
        """Send a request, read its answer. The caller aborts the connection unless it is `reusable` then."""
        self._reader.begin(body_limit)
        if self._transport.is_closing():
            raise HttpFailure("the server closed the connection")
        self._awaited = asyncio.get_running_loop().create_future()
        self._transport.write(request_head)
        try:
            return await self._awaited
        finally:
            self._awaited = None
            self._reader.drop()

    @property
    def answer_began(self) -> bool:
        """Whether the last exchange brought even one byte."""
        return self._reader.started

    @property
    def reusable(self) -> bool:
        return self._reader.reusable and not self._transport.is_closing()

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def abort(self) -> None:
        self._transport.abort()

    # From here on, what the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._keeper.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self._awaited is None or self._awaited.done():
            self.abort()  # nobody asked for this
            return
        try:
            answer = self._reader.received(nbytes)
        except (HttpFailure, ScrapeLimitExceeded) as e:
            self._awaited.set_exception(e)
            self.abort()
            return
        if answer is not None:
            self._awaited.set_result(answer)

    def eof_received(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            try:
                self._awaited.set_result(self._reader.end())
            except HttpFailure as e:
                self._awaited.set_exception(e)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._keeper.lost(self)
        if self._awaited is not None and not self._awaited.done():
            why = f"the connection broke: {explain(exc)}" if exc else "the connection was closed"
            self._awaited.set_exception(HttpFailure(why))


def explain(error: Exception) -> str:
    """For people; asyncio's own texts are made for programmers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, OSError):
        number = error.errno or 0  # the resolver's are below zero, and its text is fine
        return os.strerror(number) if number > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__
