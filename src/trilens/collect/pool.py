"""One job: its discovery, its targets, their loops."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.collect.discovery import discoveries_of
from trilens.collect.http_client import HttpClient
from trilens.collect.loop import ScrapeLoop, Timing
from trilens.collect.target import DroppedTarget, Target, build_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.appender import Appender
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.discovery import TargetLabels
    from trilens.collect.ingest import LivingSeries
    from trilens.model.labels import Codes, Labels

log = logging.getLogger(__name__)

_NO_REFS: Final = np.zeros(0, dtype=np.int32)

_Key = tuple["Labels", str, float, float]
Inheritance = dict[tuple["Labels", str], "LivingSeries"]
"""The living series of an earlier pool's targets, by labels and URL, so that their ends are seen."""


class ScrapePool:
    """Lives on the scraping thread's event loop; only `loops` and `dropped` are read from elsewhere."""

    def __init__(self, config: ScrapeConfig, appender: Appender, timing: Timing) -> None:
        self.config = config
        self._appender = appender
        self._timing = timing
        self._client = HttpClient(config)
        self._discovery: list[asyncio.Task[None]] = []
        self._found: dict[tuple[int, str], Sequence[TargetLabels]] = {}
        self._loops: dict[_Key, ScrapeLoop] = {}
        self._tasks: dict[ScrapeLoop, asyncio.Task[None]] = {}
        self._dropped: list[DroppedTarget] = []
        self._inherited: Inheritance = {}
        self._lock = threading.Lock()  # guards _loops and _dropped against readers on other threads

    def start(self, inherited: Inheritance | None = None) -> None:
        if inherited:
            self._inherited = dict(inherited)
            self._discovery.append(asyncio.create_task(self._end_orphans()))
        for number, discovery in enumerate(discoveries_of(self.config)):

            def publish(source: str, targets: Sequence[TargetLabels], number: int = number) -> None:
                self._found[number, source] = targets
                self._sync()

            self._discovery.append(asyncio.create_task(discovery.run(publish)))

    def loops(self) -> list[ScrapeLoop]:
        with self._lock:
            return list(self._loops.values())

    def dropped(self) -> list[DroppedTarget]:
        with self._lock:
            return list(self._dropped)

    def inheritance(self) -> Inheritance:
        own = {(loop.target.labels, loop.target.url): loop.living() for loop in self._loops.values()}
        return {**self._inherited, **own}

    async def stop(self, *, grace_s: float, mark_stale: bool = False) -> None:
        """End discovery and loops; scrapes under way get `grace_s` to be appended.

        With `mark_stale`, loops go on by themselves until they have written their markers: await `finish`.
        """
        for task in self._discovery:
            task.cancel()
        await asyncio.gather(*self._discovery, return_exceptions=True)
        for loop in self._loops.values():
            loop.stop(mark_stale=mark_stale)
        if not mark_stale:
            await self._end_tasks(grace_s)
            await self._client.close()

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._client.close()

    async def _end_tasks(self, grace_s: float) -> None:
        busy = [task for loop, task in self._tasks.items() if loop.busy]
        if busy:
            await asyncio.wait(busy, timeout=grace_s)
        # What is left waits for a next scrape, for markers, or for a target that does not answer.
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _sync(self) -> None:
        """Make the running loops those of the targets that discovery now gives."""
        wanted: dict[_Key, Target] = {}
        dropped: list[DroppedTarget] = []
        for targets in self._found.values():
            for labels in targets:
                built = build_target(labels, self.config)
                if isinstance(built, Target):
                    wanted.setdefault(built.key, built)
                else:
                    dropped.append(built)
        limit = self.config.keep_dropped_targets
        with self._lock:
            self._dropped = dropped[:limit] if limit else dropped
            for key in self._loops.keys() - wanted.keys():
                self._loops.pop(key).stop(mark_stale=True)
            new = [self._make(target) for key, target in wanted.items() if key not in self._loops]
        self._check_target_limit()
        for loop in new:
            task = asyncio.create_task(loop.run())
            self._tasks[loop] = task
            task.add_done_callback(lambda done, loop=loop: self._ended(loop, done))  # type: ignore[misc]

    def _make(self, target: Target) -> ScrapeLoop:
        loop = ScrapeLoop(
            target,
            self.config,
            self._client,
            self._appender,
            self._timing,
            self._still_alive,
            inherited=self._inherited.pop((target.labels, target.url), None),
        )
        self._loops[target.key] = loop
        return loop

    def _still_alive(self) -> Codes:
        return np.concatenate([_NO_REFS, *(loop.living().all() for loop in self._loops.values())])

    async def _end_orphans(self) -> None:
        """Mark what an earlier configuration scraped and this one does not; timed as a loop's own end."""
        interval_s = self.config.scrape_interval.total_seconds()
        await asyncio.sleep(interval_s)
        t_ms = time.time_ns() // 1_000_000
        await asyncio.sleep(interval_s * 1.1)
        if self._inherited:
            gone = np.concatenate([living.all() for living in self._inherited.values()])
            self._inherited.clear()
            self._appender.append(self._appender.stale(np.setdiff1d(gone, self._still_alive()), t_ms))

    def _check_target_limit(self) -> None:
        limit, count = self.config.target_limit, len(self._loops)
        over = bool(limit) and count > limit
        for loop in self._loops.values():
            loop.forced_error = (
                f"target_limit of {limit} exceeded: the job has {count} targets" if over else None
            )

    def _ended(self, loop: ScrapeLoop, task: asyncio.Task[None]) -> None:
        self._tasks.pop(loop, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            loop.fault(error)
            log.error("scraping stopped by a fault", extra={"url": loop.target.url}, exc_info=error)
