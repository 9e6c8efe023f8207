"""The connections of an engine: those that stay, and a few that reads take turns on."""

from __future__ import annotations

import queue
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.model.query import QueryGuard
    from trilens.store.links import Link

_POLL_S: Final = 0.05  # how often a query that waits for a connection looks whether it was cancelled


class LinkPool:
    """Thread-safe."""

    def __init__(self, connect: Callable[[], Link], readers: int) -> None:
        self._connect = connect
        self._links: list[Link] = []
        self._readers: queue.LifoQueue[Link | None] = queue.LifoQueue()
        self._places = readers
        self._ends = False
        for _ in range(readers):
            self._readers.put(None)  # connected on first use: few processes need all of them

    def link(self) -> Link:
        """One of its own, until the end."""
        link = self._connect()
        self._links.append(link)
        return link

    @contextmanager
    def reader(self, guard: QueryGuard | None) -> Iterator[Link]:
        link = self._next_reader(guard)
        try:
            self._check()
            link = link or self.link()
            yield link
        except BaseException:
            if link is not None and link.is_spoilt:
                self._discard(link)
                link = None
            raise
        finally:
            self._readers.put(link)

    def end_reads(self) -> None:
        """No more begin; returns when those in flight have given their places back."""
        self._ends = True
        for _ in range(self._places):
            self._readers.get()

    def close(self) -> None:
        while self._links:
            self._links.pop().close()

    def _next_reader(self, guard: QueryGuard | None) -> Link | None:
        while True:
            if guard is not None:
                guard.check()
            self._check()
            try:
                return self._readers.get(timeout=_POLL_S)
            except queue.Empty:
                continue

    def _check(self) -> None:
        if self._ends:
            raise StoreError("the store is closed")

    def _discard(self, link: Link) -> None:
        self._links.remove(link)
        link.close()
