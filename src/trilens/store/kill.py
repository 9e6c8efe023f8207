"""Stopping queries from outside: KILL QUERY on a connection that runs nothing else.

The embedded engine takes no query id from us, but both sizes show a query's `log_comment`, so that is the
name a query is killed by.
"""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from trilens.store import sql
from trilens.store.links import LINK_ERRORS, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.05


class RunningQuery:
    """A query between its start and its end."""

    def __init__(self, tag: str, killer: Killer) -> None:
        self.tag = tag
        self.ended = threading.Event()
        self._killer = killer

    def kill(self) -> None:
        """Returns at once; safe from any thread."""
        self._killer.requests.put(self)


class Killer:
    """A thread that kills what it is asked to, again and again until the query has ended.

    Once is not enough: a query that was sent a moment ago may not be in the engine's list yet. All that are
    to die are killed together, so that one that does not die keeps no other alive.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self.requests: queue.SimpleQueue[RunningQuery | None] = queue.SimpleQueue()
        self._running: set[RunningQuery] = set()
        self._failing = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="store-kill", daemon=True)
        self._thread.start()

    @property
    def watched(self) -> int:
        return len(self._running)

    @contextmanager
    def watching(self, tag: str) -> Iterator[RunningQuery]:
        running = RunningQuery(tag, self)
        with self._lock:
            self._running.add(running)
        try:
            yield running
        finally:
            running.ended.set()
            with self._lock:
                self._running.discard(running)

    def close(self) -> None:
        """Kill all that runs, and stop when it has ended."""
        with self._lock:
            running = list(self._running)
        for query in running:
            query.kill()
        self.requests.put(None)
        self._thread.join()

    def _work(self) -> None:
        doomed: set[RunningQuery] = set()
        closing = False
        while doomed or not closing:
            with suppress(queue.Empty):
                asked = self.requests.get(timeout=_AGAIN_S if doomed else None)
                if asked is None:
                    closing = True
                else:
                    doomed.add(asked)
            doomed = {query for query in doomed if not query.ended.is_set()}
            if doomed:
                self._kill([query.tag for query in doomed])

    def _kill(self, tags: list[str]) -> None:
        try:
            self._link.command(f"KILL QUERY WHERE Settings['log_comment'] IN {sql.text_list(tags)} ASYNC")
        except LINK_ERRORS as e:
            if not self._failing:  # said once, not twenty times a second
                log.warning("cannot cancel queries, and will try again: %s", e)
            self._failing = True
        else:
            self._failing = False
