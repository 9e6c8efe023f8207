"""Connections are kept, replaced and closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest
from scripted_http import BODY, PATIENCE_S, Script, answer, client_of, fetch, running, within

from trilens.collect.body_buffer import ReceiveMemory
from trilens.collect.direct_http import DirectHttp
from trilens.collect.http_answer import HttpFailure
from trilens.collect.http_request import build_request
from trilens.model.errors import ScrapeError


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
        assert server.connections == 1, "a client that was closed does not ask again"


class Sockets:
    """Made for a client, which is told to close while it connects the first one."""

    def __init__(self, client: DirectHttp) -> None:
        self.made: list[socket.socket] = []
        self._client = client
        self.closing: asyncio.Task[None] | None = None

    def socket_for(self, found: tuple[Any, ...]) -> socket.socket:
        self.made.append(socket.socket(*found[:3]))
        self.closing = asyncio.get_running_loop().create_task(self._client.close())
        return self.made[-1]


async def test_a_client_that_closes_while_it_connects_closes_that_socket_once() -> None:
    """A socket that keeps its number would close it again, when it is another's."""
    async with running(Script(answer(b"a"))) as server:
        client = direct(idle_s=PATIENCE_S)
        sockets = Sockets(client)
        client._socket_for = sockets.socket_for
        with pytest.raises(HttpFailure):
            await within(client.get(build_request(server.url(), []), 0))
        assert sockets.closing is not None
        await within(sockets.closing)
        await within(server.hung_up.wait())
    assert [one.fileno() for one in sockets.made] == [-1]


async def test_what_a_server_says_unasked_ends_the_connection() -> None:
    async with running(Script(answer(b"a"))) as server, client_of() as client:
        await client.get(server.url(), {}, timeout_s=PATIENCE_S)
        (writer,) = server.writers
        writer.write(answer(b"unasked"))
        await within(server.hung_up.wait())
        assert (await client.get(server.url(), {}, timeout_s=PATIENCE_S)).body == b"a"
        assert server.connections == 2
