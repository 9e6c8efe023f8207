"""A caller whose time is up in the very moment in which its connection is made."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import uvloop

from trilens.collect.body_buffer import ReceiveMemory
from trilens.collect.direct_http import DirectHttp
from trilens.collect.http_request import build_request

if TYPE_CHECKING:
    from trilens.collect.http_connection import HttpConnection


class GivesUpWhenConnected(DirectHttp):
    task: asyncio.Task[object]

    def connected(self, connection: HttpConnection) -> None:
        super().connected(connection)
        self.task.cancel()


async def give_up_and_close() -> object:
    """How the request ended; TimeoutError where closing waits for it."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = GivesUpWhenConnected(ssl.create_default_context, ReceiveMemory(), idle_s=60.0)
    request = build_request(f"http://127.0.0.1:{port}/metrics", ())
    http.task = asyncio.create_task(http.get(request, 0))
    (ended,) = await asyncio.gather(http.task, return_exceptions=True)
    async with asyncio.timeout(20):
        await http.close()
    server.close()
    return ended


def test_closing_does_not_wait_for_it() -> None:
    """On uvloop, which does not tell such a connection of its end; asyncio's own loop does."""
    for run in (uvloop.run, asyncio.run):
        assert isinstance(run(give_up_and_close()), asyncio.CancelledError)
