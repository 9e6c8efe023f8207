"""Where the records of one process go: numbered, onto its spool, and from there to the server."""

from __future__ import annotations

import os
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from trilens.sdk.options import DEFAULT_SERVER
from trilens.sdk.outbox.courier import Courier
from trilens.sdk.outbox.folder import About, this_host
from trilens.sdk.outbox.line import Line, encode
from trilens.sdk.outbox.shipping import Addressee, Shipping
from trilens.sdk.outbox.spool import Spool
from trilens.sdk.outbox.transport import HttpTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.sdk.guard import Guard
    from trilens.sdk.options import Options
    from trilens.sdk.outbox.line import Header


class Standing(NamedTuple):
    """For the SDK's own metrics."""

    waiting_bytes: int
    memory_bytes: int  # of these, those that no disk has
    is_reached: bool | None  # the server, by the last request; None before the first


class Outbox:
    def __init__(
        self,
        options: Options,
        header: Header,
        guard: Guard,
        process: Callable[[], dict[str, Any]],
        state: Callable[[], dict[str, Any]],
    ) -> None:
        """`process` and `state` are asked for the sections of that name whenever they are to be told."""
        self._header = header
        self._guard = guard
        self._process = process
        self._state = state
        self._seq = 0
        self._told: dict[str, Any] | None = None  # of the process, as last told
        self._returns = 0  # of the server, when it was told
        self._facts: object = None
        server = options.server or DEFAULT_SERVER
        about = About(
            run=header.run,
            rank=header.rank,
            writer=header.writer,
            server=server,
            started_ms=time_ns() // 1_000_000,
            host=this_host(),
            pid=os.getpid(),
        )
        self._spool = Spool(
            options.spool_dir,
            about,
            guard,
            disk_bytes=options.spool_bytes,
            memory_bytes=options.memory_bytes,
        )
        transport = HttpTransport(server, options.token)
        self._shipping = Shipping(
            Addressee(server, options.server is not None, options.spool_dir, header.run, header.rank),
            self._spool,
            Courier(transport, guard),
            transport,
            guard,
            interval_s=options.heartbeat_s,
            heartbeat=self._heartbeat,
        )
        self._shipping.start()

    def put(self, sections: dict[str, Any]) -> None:
        """By one thread. On disk, or in memory where the disk does not take it, when this returns."""
        if self._spool.is_closed:
            return
        self._facts = sections.get("facts", self._facts)
        told = {**self._introduction(), **sections, "state": self._stated()}
        try:
            line = encode(self._header, self._seq, _now_ms(), told)
        except Exception:
            self._told = None  # who tells is told with the next one
            raise
        self._spool.append(Line(self._seq, line))
        self._seq += 1
        self._shipping.told()

    def close(self, timeout_s: float) -> None:
        """Sends the rest within the time. What is left then stays on the spool for the next process."""
        if self._spool.is_closed:
            return
        self._shipping.stop(timeout_s)
        self._spool.close()

    def standing(self) -> Standing:
        return Standing(self._spool.bytes_left, self._spool.bytes_in_memory, self._shipping.is_reached)

    def _introduction(self) -> dict[str, Any]:
        """In the first batch, when more became known (its GPUs), and when the server was away: a full spool
        may have lost it."""
        process, returns = self._process(), self._shipping.returns
        was_away = returns != self._returns
        if process == self._told and not was_away:
            return {}
        self._told, self._returns = process, returns
        return (
            {"process": process, "facts": self._facts} if was_away and self._facts else {"process": process}
        )

    def _heartbeat(self) -> bytes:
        sections: dict[str, Any] = {"state": self._stated()}
        if self._told is None:  # a rank that waits for the others has done nothing to tell of yet
            sections["process"] = self._process()
        return encode(self._header, None, _now_ms(), sections)

    def _stated(self) -> dict[str, Any]:
        return {**self._state(), "heartbeat_s": self._shipping.interval_s}


def _now_ms() -> int:
    return time_ns() // 1_000_000
