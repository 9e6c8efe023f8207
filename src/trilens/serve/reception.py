"""Connections are counted from when they are accepted: who holds one open without a word, be it of HTTP or of
the TLS before that, takes a place of his own share with it.

Those that are kept between two requests make room: each process of a training keeps one, and there may be
more processes than places. Whoever has had an answer, and is closed then, comes again with his next request.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

from trilens.model.access import is_loopback
from trilens.serve.access.callers import site_of
from trilens.serve.http_protocol import LimitedHttp, Place

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

log = logging.getLogger(__name__)

_HANDSHAKE_S: Final = 10.0  # on a slow line it takes a second or two
_REFUSED: Final = 64  # that are held for long enough to be told why
_AT_ONCE: Final = 128  # accepted before others have their turn
_AGAIN_S: Final = 1.0  # after one could not be accepted: there is no file descriptor left
_SAID_EVERY_S: Final = 60.0
_TOO_MANY: Final = b"too many connections: see server.max_connections\n"
_TOO_MANY_OF_ONE: Final = b"too many connections from this address: see server.max_connections_per_address\n"


class CountedPlace(Place):
    """Of one connection, until it leaves."""

    def __init__(self, taken: Taken, site: str, refusal: bytes = b"") -> None:
        self.refusal = refusal
        self._taken = taken
        self._site: str | None = site
        taken.by_site[site] += 1

    def rest(self, end: Callable[[], None]) -> None:
        if self._site is not None:
            self._taken.resting[self] = (self._site, end)

    def work(self) -> None:
        self._taken.resting.pop(self, None)

    def leave(self) -> None:
        self.work()
        site, self._site = self._site, None
        if site is None:
            return
        self._taken.by_site[site] -= 1
        if not self._taken.by_site[site]:
            del self._taken.by_site[site]


class Taken:
    """The places that are taken: how many by each site, and which of them rest, the longest first."""

    def __init__(self) -> None:
        self.by_site: Counter[str] = Counter()
        self.resting: dict[CountedPlace, tuple[str, Callable[[], None]]] = {}

    def free_one(self, of: str | None = None) -> bool:
        """Of one site, or of any."""
        for place, (site, end) in self.resting.items():
            if of is None or site == of:
                place.leave()
                end()
                return True
        return False


class Connections:
    """How many there may be, and of these how many each address may have, so that one of them leaves some to
    the others. `is_exempt` are those behind which many may be, or nobody else: proxies that are trusted. Of
    one event loop."""

    def __init__(self, most: int, most_of_each: int, is_exempt: Callable[[str], bool]) -> None:
        self._most = most
        self._most_of_each = most_of_each
        self._is_exempt = is_exempt
        self._taken = Taken()
        self._refused = Taken()

    def open(self, peer: str) -> Place | None:
        """None where there are too many even of those that are refused."""
        site, taken = site_of(peer), self._taken
        is_one_of_many = taken.by_site[site] >= self._most_of_each and not (
            is_loopback(peer) or self._is_exempt(peer)
        )
        if is_one_of_many and not taken.free_one(site):
            refusal = _TOO_MANY_OF_ONE
        elif taken.by_site.total() >= self._most and not taken.free_one():
            refusal = _TOO_MANY
        else:
            return CountedPlace(taken, site)
        return (
            CountedPlace(self._refused, site, refusal) if self._refused.by_site.total() < _REFUSED else None
        )


class Reception:
    """Accepts what comes to one listening socket; uvicorn takes it for a server of asyncio's. That one would
    tell nobody of a connection before its TLS is agreed."""

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        protocol: Callable[[Place], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._protocol = protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._greeted: set[asyncio.Task[None]] = set()  # connections whose TLS is not agreed yet
        self._again: asyncio.TimerHandle | None = None
        self._said_s: dict[str, float] = {}
        listener.setblocking(False)

    def open(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        if self._again is not None:
            self._again.cancel()
        for greeted in self._greeted:
            greeted.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._greeted, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # it left before
                continue
            except OSError as e:
                self._say(logging.ERROR, "connections wait to be accepted", error=str(e))
                self._loop.remove_reader(self._listener.fileno())
                self._again = self._loop.call_later(_AGAIN_S, self.open)
                return
            self._take(connection, address[0])

    def _take(self, connection: socket.socket, peer: str) -> None:
        place = self._connections.open(peer)
        if place is None or place.refusal:
            self._say(logging.WARNING, "connections are refused: there are too many", of=peer)
        if place is None:
            connection.close()
            return
        connection.setblocking(False)
        greeted = self._loop.create_task(self._greet(connection, place))
        self._greeted.add(greeted)
        greeted.add_done_callback(self._greeted.discard)

    async def _greet(self, connection: socket.socket, place: Place) -> None:
        """From its end on the protocol knows of the connection, and has it leave its place."""
        within_s = _HANDSHAKE_S if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                partial(self._protocol, place), connection, ssl=self._tls, ssl_handshake_timeout=within_s
            )
        except OSError:  # it spoke no TLS, or too slowly, or left
            place.leave()
        except BaseException:
            place.leave()
            raise

    def _say(self, level: int, what: str, **details: str) -> None:
        """Each such thing comes as often as somebody tries."""
        now_s = self._loop.time()
        if now_s - self._said_s.get(what, -math.inf) >= _SAID_EVERY_S:
            self._said_s[what] = now_s
            log.log(level, what, extra=details)


class CountingServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        def protocol(place: Place) -> LimitedHttp:
            return LimitedHttp(self.config, self.server_state, self.lifespan.state, place=place)

        await self.lifespan.startup()
        receptions = []
        for listener in sockets or ():
            listener.listen(self.config.backlog)
            receptions.append(Reception(listener, self._connections, protocol, self.config.ssl))
            receptions[-1].open()
        self.servers = receptions  # type: ignore[assignment]
        self.started = True
