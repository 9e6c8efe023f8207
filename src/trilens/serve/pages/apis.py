"""What is asked for the pages of the web app."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.serve.asked_loop import AskedLoop
    from trilens.serve.routes import GuardedRoute


class PageApi:
    """What every viewer shares is made before anybody asks: by those who mind when there is something new."""

    def routes(self) -> list[GuardedRoute]:
        raise NotImplementedError

    def begun(self, loop: AskedLoop) -> None:
        """The server begins, and answers in this loop."""

    def looked(self) -> None:
        """At the fleet, in the thread that did."""

    def booked(self, now_ms: int) -> None:
        """The open hour, in the ledger's thread."""


class PageApis:
    def __init__(self, each: Iterable[PageApi] = ()) -> None:
        self._each = [*each]

    def routes(self) -> list[GuardedRoute]:
        return [one for api in self._each for one in api.routes()]

    def add(self, late: PageApi) -> None:
        """One that needs the routes of all others."""
        self._each.append(late)

    def begun(self, loop: AskedLoop) -> None:
        for one in self._each:
            one.begun(loop)

    def looked(self, *_: object) -> None:
        for one in self._each:
            one.looked()

    def booked(self, now_ms: int) -> None:
        for one in self._each:
            one.booked(now_ms)
