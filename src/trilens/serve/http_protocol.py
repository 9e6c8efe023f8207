"""HTTP/1.1 as uvicorn speaks it, with limits on who sends a request slowly, or too much before its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

MOST_HEAD_BYTES: Final = 64 * 1024  # the address and all headers; queries that are longer are posted
_HEAD_S: Final = 30.0
_BODY_S: Final = 30.0  # in each such span,
_BODY_BYTES: Final = 15_000  # so much of a body must come, or its end: 500 bytes a second, as Apache has it
_TOO_LARGE: Final = b"the address and the headers have more than 65,536 bytes: send a form, by POST\n"
_TOO_SLOW: Final = b"the body came at less than 500 bytes a second\n"


class Place:
    """What a connection takes of a server; this one is of a server that counts none. With a `refusal` all
    that the connection is there for is to tell that."""

    refusal = b""

    def rest(self, end: Callable[[], None]) -> None:
        """It is kept for a next request: until then `end` may be called, to make room for others."""

    def work(self) -> None:
        """It was heard again."""

    def leave(self) -> None:
        """It has ended. Once more does no harm."""


class LimitedHttp(HttpToolsProtocol):
    """Without it, whoever can connect fills the memory with one header that never ends, or all connections
    with requests that never begin or never end. An application would not see the rest of a body that it has
    answered already."""

    def __init__(self, *arguments: Any, place: Place | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._place = place or Place()
        self._is_in_head = True
        self._head_bytes = 0
        self._is_too_large = False
        self._body_bytes = 0  # in this span
        self._is_held_up = False  # by ourselves: there was more than could be taken
        self._too_slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._place.refusal:
            self.connections.discard(self)  # a stop waits for no such one
            self._end(b"503 Service Unavailable", self._place.refusal)
            return
        self._too_slow = self.loop.call_later(_HEAD_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._place.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_too_large or self._place.refusal:
            return
        self._place.work()
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._too_slow is None:  # the next one of a connection that is kept
                self._too_slow = self.loop.call_later(_HEAD_S, self._give_up)
        self._body_bytes += len(data)
        super().data_received(data)
        self._is_held_up |= self.flow.read_paused
        if self._is_in_head and self._head_bytes > MOST_HEAD_BYTES and not self._is_too_large:
            self._refuse()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD_BYTES:
            self._is_too_large = True
            raise ValueError("too large")  # the parser stops, and send_400_response is called
        self._is_in_head = False
        super().on_headers_complete()
        self._await_body()

    def on_message_complete(self) -> None:
        self._stop_waiting()
        super().on_message_complete()
        self._is_in_head, self._head_bytes = True, 0

    def on_response_complete(self) -> None:
        has_another = bool(self.pipeline)
        super().on_response_complete()
        if self._is_in_head and not self._head_bytes and not has_another and not self.transport.is_closing():
            self._place.rest(self._make_room)

    def _make_room(self) -> None:
        self.connections.discard(self)  # over TLS the other end has some time to say goodbye, too
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        if self._is_too_large:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        self._is_too_large = True
        self._end(b"431 Request Header Fields Too Large", _TOO_LARGE)

    def _await_body(self) -> None:
        self._body_bytes, self._is_held_up = 0, self.flow.read_paused
        self._too_slow = self.loop.call_later(_BODY_S, self._look_at_body)

    def _look_at_body(self) -> None:
        self._too_slow = None
        is_enough = self._body_bytes >= _BODY_BYTES or self._is_held_up
        if is_enough and not self.cycle.response_complete:
            self._await_body()
        elif self.cycle.response_started or self.pipeline:
            self.transport.close()
        else:
            self._end(b"408 Request Timeout", _TOO_SLOW)

    def _end(self, status: bytes, why: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, len(why), why)
        )
        self.transport.close()

    def _give_up(self) -> None:
        self._too_slow = None
        self.transport.close()

    def _stop_waiting(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
