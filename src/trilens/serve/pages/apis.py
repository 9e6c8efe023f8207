"""What is asked for the pages of the web app."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from starlette.routing import Route


class PageApi(Protocol):
    def routes(self) -> list[Route]: ...


@runtime_checkable
class ToldOfLooks(Protocol):
    def looked(self) -> None: ...


@runtime_checkable
class AsksInside(Protocol):
    def ask_in(self, loop: asyncio.AbstractEventLoop) -> None: ...


@runtime_checkable
class ToldOfBooking(Protocol):
    def booked(self, now_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class PageApis:
    """What every viewer shares is made before anybody asks: they are told when there is something new."""

    each: Sequence[PageApi] = ()
    others: list[PageApi] = field(default_factory=list)  # that need the routes of all, and have their own

    def ask_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """The server begins, and answers in this loop."""
        for one in (*self.each, *self.others):
            if isinstance(one, AsksInside):
                one.ask_in(loop)

    def looked(self, *_: object) -> None:
        """At the fleet, in the thread that did."""
        for one in (*self.each, *self.others):
            if isinstance(one, ToldOfLooks):
                one.looked()

    def booked(self, now_ms: int) -> None:
        """The open hour, in the ledger's thread."""
        for one in self.each:
            if isinstance(one, ToldOfBooking):
                one.booked(now_ms)

    def routes(self) -> list[Route]:
        return [one for api in self.each for one in api.routes()]
