"""A wire to something that Trilens depends on, which can be made to fail in the ways that networks do."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from enum import StrEnum
from itertools import cycle
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_PATIENCE_S: Final = 30.0
_PIECE: Final = 65_536
_TRICKLED: Final = 64  # bytes,
_TRICKLE_S: Final = 0.05  # every so often
_NOISE: Final = 64  # bytes


class Fault(StrEnum):
    NONE = "none"
    REFUSE = "refuse"  # nobody listens
    HANG = "hang"  # they are taken, and nothing is ever said
    FREEZE = "freeze"  # nothing more comes through, also of those that are there; later it goes on
    TRICKLE = "trickle"  # all is said, slowly
    GARBAGE = "garbage"  # something is said that makes no sense


class Nonsense(StrEnum):
    """What is said in the place of who was asked, as by a captive portal or a proxy that has gone wrong."""

    BROKEN = "broken"  # JSON by its name
    NOISE = "noise"  # not even HTTP
    LOGIN = "login"  # a page to log in at
    EMPTY = "empty"
    BRACES = "braces"  # JSON, of nothing


def _answer(kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_PAGE: Final = b"""<!DOCTYPE html>
<html><head><title>Log in</title></head>
<body><form method="post" action="/login"><input name="user"><button>Log in</button></form></body></html>
"""
_ANSWERS: Final = {
    Nonsense.BROKEN: _answer("application/json", b"\xff{\x00]<!nul"),
    Nonsense.LOGIN: _answer("text/html; charset=utf-8", _PAGE),
    Nonsense.EMPTY: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    Nonsense.BRACES: _answer("application/json", b"{}"),
}


class FaultProxy:
    """In front of what listens on a port of this machine. Use as a context manager; `set` from any thread."""

    def __init__(self, port: int, nonsense: Sequence[Nonsense] = tuple(Nonsense)) -> None:
        """`nonsense` are the kinds that take turns."""
        self._to = port
        self._fault = Fault.NONE
        self._nonsense = nonsense
        self._turns = cycle(nonsense)
        self.said: Nonsense | None = None  # last, while it is garbage
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._moving = asyncio.Event()  # unless it is frozen
        self._server: asyncio.Server | None = None
        # Keeps the port while nobody listens on it: whoever connects then is refused by the system.
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listens: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), daemon=True
        )
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, fault: Fault) -> None:
        """Connections that are there end, and what comes next meets the fault; only a freeze, and its end,
        leave them."""
        asyncio.run_coroutine_threadsafe(self._set(fault), self._loop).result(_PATIENCE_S)

    async def _set(self, fault: Fault) -> None:
        thaws = self._fault is Fault.FREEZE and fault is Fault.NONE
        self._fault, self.said, self._turns = fault, None, cycle(self._nonsense)
        if fault is Fault.REFUSE:
            self._leave()
        elif self._server is None:
            self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port, reuse_port=True)
        if fault is Fault.FREEZE:
            self._moving.clear()
            return
        if not thaws:
            for writer in self._writers:
                writer.transport.abort()
        self._moving.set()

    def _leave(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    def __enter__(self) -> FaultProxy:
        self._kept.bind(("127.0.0.1", 0))
        self.port = self._kept.getsockname()[1]
        self._thread.start()
        self._listens.result(_PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._kept.close()

    async def _serve(self) -> None:
        try:
            await self._set(Fault.NONE)
        except OSError as e:
            self._listens.set_exception(e)
            return
        self._listens.set_result(None)
        await self._over.wait()
        await self._set(Fault.REFUSE)
        talks = asyncio.all_tasks() - {asyncio.current_task()}
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._join(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            match self._fault:
                case Fault.REFUSE:  # it came just before nobody listened any more
                    pass
                case Fault.HANG:
                    while await reader.read(_PIECE):
                        pass
                case Fault.GARBAGE:
                    await reader.read(_PIECE)
                    self.said = next(self._turns)
                    writer.write(_ANSWERS.get(self.said) or os.urandom(_NOISE))
                    await writer.drain()
                case fault:
                    await self._moving.wait()
                    if not writer.is_closing():  # another fault came instead of the end of this one
                        await self._pass_on(reader, writer, slowly=fault is Fault.TRICKLE)
        self._part(writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool
    ) -> None:
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._join(onward_writer)
        try:
            done, others = await asyncio.wait(
                (
                    asyncio.create_task(self._flow(reader, onward_writer, slowly=False)),
                    asyncio.create_task(self._flow(onward_reader, writer, slowly=slowly)),
                ),
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in others:
                task.cancel()
            await asyncio.gather(*done, *others, return_exceptions=True)
        finally:
            self._part(onward_writer)

    async def _flow(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool
    ) -> None:
        """To its end. What was sent before a freeze by one who has left meanwhile arrives all the same."""
        while data := await reader.read(_TRICKLED if slowly else _PIECE):
            await self._moving.wait()
            writer.write(data)
            await writer.drain()
            if slowly:
                await asyncio.sleep(_TRICKLE_S)
        await self._moving.wait()  # nor does a connection's end come through

    def _join(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # what is drained is on its way, and not only here
        self._writers.add(writer)

    def _part(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._writers.discard(writer)
