"""A wire between Trilens and an API server, which a test can cut or hold."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class TcpProxy:
    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.connections = 0
        self.port = 0

    def cut(self) -> None:
        """Every connection ends in the middle of what it was saying."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Connections stay, and nothing comes through any more."""
        self._flows.clear()

    def let_go(self) -> None:
        """Again, for connections that are made from now on."""
        self._flows = asyncio.Event()
        self._flows.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        flows = self._flows
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._to)
        both = {writer, onward_writer}
        self._writers |= both
        with suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(
                _pass_on(reader, onward_writer, flows), _pass_on(onward_reader, writer, flows)
            )
        for each in both:
            each.transport.abort()
        self._writers -= both


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
    while data := await reader.read(65536):
        await flows.wait()
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def tcp_proxy(port: int) -> AsyncIterator[TcpProxy]:
    """In front of what listens on this port."""
    proxy = TcpProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
