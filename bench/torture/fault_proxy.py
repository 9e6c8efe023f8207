"""A wire to something that Trilens depends on, which can be made to fail in the ways that networks do."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

_PATIENCE_S: Final = 30.0
_PIECE: Final = 65_536
_TRICKLED: Final = 64  # bytes,
_TRICKLE_S: Final = 0.05  # every so often
_NONSENSE: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n\xff{\x00]<!nul"
)


class Fault(StrEnum):
    NONE = "none"
    REFUSE = "refuse"  # nobody listens
    HANG = "hang"  # they are taken, and nothing is ever said
    TRICKLE = "trickle"  # all is said, slowly
    GARBAGE = "garbage"  # something is said that makes no sense


class FaultProxy:
    """In front of what listens on a port of this machine. Use as a context manager; `set` from any thread."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._fault = Fault.NONE
        self._nonsense = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
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
        """Connections that are there end: what comes next meets the fault."""
        asyncio.run_coroutine_threadsafe(self._set(fault), self._loop).result(_PATIENCE_S)

    async def _set(self, fault: Fault) -> None:
        self._fault = fault
        if fault is Fault.REFUSE:
            self._leave()
        elif self._server is None:
            self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port, reuse_port=True)
        for writer in self._writers:
            writer.transport.abort()

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
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            match self._fault:
                case Fault.REFUSE:  # it came just before nobody listened any more
                    pass
                case Fault.HANG:
                    while await reader.read(_PIECE):
                        pass
                case Fault.GARBAGE:
                    await reader.read(_PIECE)
                    # Whoever asks for no more than a 200 gets it every other time, as from a captive portal.
                    self._nonsense += 1
                    writer.write(_NONSENSE if self._nonsense % 2 else os.urandom(64))
                    await writer.drain()
                case fault:
                    await self._pass_on(reader, writer, slowly=fault is Fault.TRICKLE)
        writer.transport.abort()
        self._writers.discard(writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool
    ) -> None:
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers.add(onward_writer)
        try:
            done, others = await asyncio.wait(
                (
                    asyncio.create_task(_flow(reader, onward_writer, slowly=False)),
                    asyncio.create_task(_flow(onward_reader, writer, slowly=slowly)),
                ),
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in others:
                task.cancel()
            await asyncio.gather(*done, *others, return_exceptions=True)
        finally:
            onward_writer.transport.abort()
            self._writers.discard(onward_writer)


async def _flow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool) -> None:
    while data := await reader.read(_TRICKLED if slowly else _PIECE):
        writer.write(data)
        await writer.drain()
        if slowly:
            await asyncio.sleep(_TRICKLE_S)
    await writer.drain()
