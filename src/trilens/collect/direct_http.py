"""HTTP/1.1 GET straight to the target, over connections that are kept: no proxy, no redirects.

Written by hand because fetching was a quarter of what a sample cost. A 315 KB body over loopback, one every
50 ms so that the processor's caches are cold as they are in real life, took 0.6 to 0.75 ms of CPU on uvloop
and 0.7 to 0.9 on asyncio's own loop, where aiohttp took 1.1 to 2 on either and a blocking socket 0.3 to 0.4
(on two cores with other work).
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from aiohappyeyeballs import start_connection

from trilens.collect.http_answer import Answer, AnswerReader, HttpFailure
from trilens.collect.http_connection import HttpConnection, explain

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from trilens.collect.body_buffer import ReceiveMemory
    from trilens.collect.http_request import Origin, Request
    from trilens.collect.reach import Reach

_NEXT_ADDRESS_AFTER_S: Final = 0.25  # RFC 8305: how long a host's first address has the race to itself


class DirectHttp:
    """Belongs to the event loop that uses it. `tls` is called for the first https target."""

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext],
        memory: ReceiveMemory,
        *,
        server_name: str | None = None,
        idle_s: float,
        reach: Reach | None = None,
    ) -> None:
        self._tls = tls
        self._memory = memory
        self._server_name = server_name
        self._idle_s = idle_s
        self._socket_for = reach.socket_for if reach is not None else None
        self._open: set[HttpConnection] = set()
        self._idle: dict[Origin, list[HttpConnection]] = {}  # the one used last is at the end
        self._closing_idle: asyncio.TimerHandle | None = None
        self._closed = False

    async def get(self, request: Request, body_limit: int) -> Answer:
        """Raises HttpFailure, and ScrapeLimitExceeded for a body above `body_limit` (0: no limit)."""
        kept = self._take(request.origin)
        if kept is not None:
            try:
                return await self._ask(kept, request, body_limit)
            except HttpFailure:
                if kept.answer_began or self._closed:
                    raise
                # The server gave the connection up in the meantime, as it may: ask again on a new one.
        return await self._ask(await self._connect(request.origin), request, body_limit)

    async def close(self) -> None:
        """End all connections, those in use too."""
        self._closed = True
        if self._closing_idle is not None:
            self._closing_idle.cancel()
        ending = list(self._open)
        for connection in ending:
            connection.abort()
        await asyncio.gather(*(connection.ended.wait() for connection in ending))

    async def _ask(self, connection: HttpConnection, request: Request, body_limit: int) -> Answer:
        reusable = False
        try:
            answer = await connection.exchange(request.head, body_limit)
            reusable = connection.reusable
            return answer
        finally:
            if reusable:
                self._put_back(connection)
            else:
                connection.abort()  # also when the caller's time is up: the rest of the answer is no use

    async def _connect(self, origin: Origin) -> HttpConnection:
        loop = asyncio.get_running_loop()
        tls = self._tls() if origin.tls else None
        server_name = (self._server_name or origin.host).rstrip(".") if origin.tls else None
        connection = HttpConnection(origin, self, AnswerReader(self._memory.scratch, self._memory.buffers))
        try:
            addresses = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
            connected = await start_connection(
                addresses, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER_S, socket_factory=self._socket_for
            )
            await loop.create_connection(
                lambda: connection, sock=connected, ssl=tls, server_hostname=server_name
            )
        except asyncio.CancelledError:
            self.lost(connection)  # uvloop closes one that was just made, and does not tell it
            raise
        except (OSError, RuntimeError) as e:  # uvloop has RuntimeErrors for addresses that it cannot use
            raise HttpFailure(f"cannot connect: {explain(e)}") from e
        if self._closed:
            # Not when it is told of the connection: uvloop, which does not know by then whose socket that is,
            # and the socket itself would close it, the latter when its number may be somebody else's.
            connection.abort()
        return connection

    def _take(self, origin: Origin) -> HttpConnection | None:
        idle = self._idle.get(origin, ())
        while idle:
            connection = idle.pop()
            if not connection.is_closing:
                return connection
        return None

    def _put_back(self, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(connection.origin, []).append(connection)
        if self._closing_idle is None:
            self._closing_idle = loop.call_later(self._idle_s, self._close_idle)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        idle = [connection for connections in self._idle.values() for connection in connections]
        long_ago = loop.time() - self._idle_s
        for connection in idle:
            if connection.idle_since <= long_ago:
                connection.abort()
        staying = [connection.idle_since for connection in idle if connection.idle_since > long_ago]
        self._closing_idle = loop.call_at(min(staying) + self._idle_s, self._close_idle) if staying else None

    # The connections' keeper.

    def connected(self, connection: HttpConnection) -> None:
        self._open.add(connection)

    def lost(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        idle = self._idle.get(connection.origin, [])
        if connection in idle:
            idle.remove(connection)
        if not idle:
            self._idle.pop(connection.origin, None)
