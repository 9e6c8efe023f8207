"""Staleness markers for the series of targets that are no longer scraped."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.collect.appender import Appender
    from trilens.collect.loop import ScrapeLoop
    from trilens.model.labels import Labels
    from trilens.model.series import Handles


class Endings:
    """A series ends at the time of the scrape that will not be.

    The target may come back, in the same job or in one that is configured anew, and go on writing the same
    series: as Prometheus does, wait two intervals and a bit, and leave out what is alive again by then.
    """

    def __init__(self, appender: Appender, alive_with: Callable[[Labels], Handles]) -> None:
        self._appender = appender
        self._alive_with = alive_with  # living series of the targets that have these labels
        self._waiting: set[asyncio.Task[None]] = set()

    def add(self, loop: ScrapeLoop) -> None:
        """`loop` has stopped for good."""
        refs = loop.living()
        if len(refs):
            task = asyncio.create_task(self._end(loop, refs))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def stop(self) -> None:
        """At shutdown nothing is marked: the server will be back."""
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _end(self, loop: ScrapeLoop, refs: Handles) -> None:
        await asyncio.sleep(loop.next_tick - asyncio.get_running_loop().time())
        t_ms = time.time_ns() // 1_000_000
        await asyncio.sleep(loop.target.interval_s * 1.1)
        gone = np.setdiff1d(refs, self._alive_with(loop.target.labels))
        self._appender.append(self._appender.stale(gone, t_ms))
