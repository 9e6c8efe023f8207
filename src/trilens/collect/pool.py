"""One job: its discovery, its targets, their loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from trilens.collect.discovery import discoveries_of
from trilens.collect.http_client import HttpClient
from trilens.collect.loop import ScrapeLoop, Timing
from trilens.collect.target import DroppedTarget, Target, build_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.appender import Appender
    from trilens.collect.body_buffer import ReceiveMemory
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.discovery import SharedDiscoveries, TargetLabels
    from trilens.collect.endings import Endings
    from trilens.model.labels import Labels

log = logging.getLogger(__name__)

_Key = tuple["Labels", str, float, float]


class ScrapePool:
    """Lives on the scraping thread's event loop; only `loops` and `dropped` are read from elsewhere."""

    def __init__(
        self,
        config: ScrapeConfig,
        appender: Appender,
        timing: Timing,
        endings: Endings,
        memory: ReceiveMemory,
        shared: SharedDiscoveries,
    ) -> None:
        self.config = config
        self._appender = appender
        self._timing = timing
        self._endings = endings
        # Both read files, and say so when they cannot, before anything has started.
        self._client = HttpClient(config, memory)
        self._discoveries = discoveries_of(config, shared)
        self._discovery_tasks: list[asyncio.Task[None]] = []
        self._found: dict[tuple[int, str], Sequence[TargetLabels]] = {}
        self._loops: dict[_Key, ScrapeLoop] = {}
        self._tasks: dict[ScrapeLoop, asyncio.Task[None]] = {}
        self._dropped: list[DroppedTarget] = []
        self._lock = threading.Lock()  # guards _loops and _dropped against readers on other threads

    def start(self) -> None:
        for number, discovery in enumerate(self._discoveries):

            def publish(source: str, targets: Sequence[TargetLabels], number: int = number) -> None:
                self._found[number, source] = targets
                self._sync()

            task = asyncio.create_task(discovery.run(publish))
            task.add_done_callback(self._discovery_ended)
            self._discovery_tasks.append(task)

    def loops(self) -> list[ScrapeLoop]:
        with self._lock:
            return list(self._loops.values())

    def dropped(self) -> list[DroppedTarget]:
        with self._lock:
            return list(self._dropped)

    async def stop(self, *, grace_s: float) -> None:
        """End discovery and loops; scrapes under way get `grace_s` to be appended."""
        for task in self._discovery_tasks:
            task.cancel()
        await asyncio.gather(*self._discovery_tasks, return_exceptions=True)
        for loop in self._loops.values():
            loop.stop()
        tasks = list(self._tasks.values())
        busy = [task for loop, task in self._tasks.items() if loop.busy]
        if busy:
            await asyncio.wait(busy, timeout=grace_s)
        for task in tasks:  # those that are left wait for a next scrape, or for a target that does not answer
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

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
                self._loops.pop(key).stop()  # what it said ends when its task does
            new = [self._make(target) for key, target in wanted.items() if key not in self._loops]
        self._check_target_limit()
        for loop in new:
            task = asyncio.create_task(loop.run())
            self._tasks[loop] = task
            task.add_done_callback(lambda done, loop=loop: self._ended(loop, done))  # type: ignore[misc]

    def _make(self, target: Target) -> ScrapeLoop:
        loop = ScrapeLoop(target, self.config, self._client, self._appender, self._timing)
        self._loops[target.key] = loop
        return loop

    def _check_target_limit(self) -> None:
        limit, count = self.config.target_limit, len(self._loops)
        over = bool(limit) and count > limit
        for loop in self._loops.values():
            loop.forced_error = (
                f"target_limit of {limit} exceeded: the job has {count} targets" if over else None
            )

    def _discovery_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("discovery stopped by a fault", extra={"job": self.config.job_name}, exc_info=error)

    def _ended(self, loop: ScrapeLoop, task: asyncio.Task[None]) -> None:
        self._tasks.pop(loop, None)
        if self._loops.get(loop.target.key) is not loop:
            self._endings.add(loop)
        if not task.cancelled() and (error := task.exception()) is not None:
            loop.fault(error)
            log.error("scraping stopped by a fault", extra={"url": loop.target.shown_url}, exc_info=error)
