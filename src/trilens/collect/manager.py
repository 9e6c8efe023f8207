"""All jobs, on a thread of their own with an event loop of its own: parsing never delays the HTTP server."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import uvloop

from trilens.collect.appender import Appender, ScrapeStats
from trilens.collect.body_buffer import ReceiveMemory
from trilens.collect.discovery import SharedDiscoveries
from trilens.collect.endings import Endings
from trilens.collect.loop import Timing
from trilens.collect.pool import ScrapePool
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from trilens.collect.config import ScrapeConfig
    from trilens.collect.exposition import FamilyMetadata
    from trilens.collect.sink import SampleSink
    from trilens.collect.target import DroppedTarget, TargetStatus
    from trilens.model.labels import Labels
    from trilens.model.series import Handles

_TIMESTAMP_TOLERANCE_S: Final = 0.002
_STOP_GRACE_S: Final = 5.0
_NO_REFS: Final = np.zeros(0, dtype=np.int64)


class TargetMetadata(NamedTuple):
    """A metric family as one target describes it."""

    target: dict[str, str]
    family: FamilyMetadata


class ScrapeManager:
    """Thread-safe. `start` once; `reload` as often as needed; `stop` once."""

    def __init__(
        self,
        configs: Iterable[ScrapeConfig],
        sink: SampleSink,
        *,
        external_labels: Mapping[str, str] | None = None,
        timestamp_tolerance_s: float = _TIMESTAMP_TOLERANCE_S,
    ) -> None:
        """`external_labels` only move the moments of scraping: two servers do not ask at the same time."""
        self._configs = list(configs)
        self._appender = Appender(sink, ScrapeStats())
        seed = f"{socket.gethostname()}{sorted((external_labels or {}).items())}"
        self._timing = Timing(seed, timestamp_tolerance_s)
        self._memory = ReceiveMemory()
        self._discoveries = SharedDiscoveries()
        self._pools: dict[str, ScrapePool] = {}
        self._endings = Endings(self._appender, self._alive_with)
        # A scrape costs a seventh less CPU on it than on asyncio's own.
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="trilens-scrape", daemon=True)
        self._reloading = threading.Lock()

    def start(self) -> None:
        """Raises ConfigError, with nothing started, when a job's files cannot be read."""
        self._thread.start()
        try:
            self._call(self._apply(self._configs))
        except ConfigError:
            self.stop()
            raise

    def reload(self, configs: Iterable[ScrapeConfig]) -> None:
        """Change to other jobs. A job that stays as it was goes on undisturbed."""
        self._call(self._apply(list(configs)))

    def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """Append what is being scraped, then end. No staleness markers: the server will be back."""
        if not self._thread.is_alive():
            self._loop.close()
            return
        self._call(self._shut_down(grace_s))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def targets(self) -> list[TargetStatus]:
        return [loop.status() for pool in self._current() for loop in pool.loops()]

    def dropped_targets(self) -> list[DroppedTarget]:
        return [target for pool in self._current() for target in pool.dropped()]

    def target_metadata(self) -> list[TargetMetadata]:
        return [
            TargetMetadata(dict(loop.target.labels), family)
            for pool in self._current()
            for loop in pool.loops()
            for family in list(loop.metadata.values())
        ]

    def discovery_troubles(self) -> list[str]:
        """What keeps jobs from finding all of their targets."""
        return self._discoveries.troubles()

    def stats(self) -> ScrapeStats:
        return self._appender.stats.copy()

    def _current(self) -> list[ScrapePool]:
        return list(self._pools.values())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _call(self, work: Coroutine[None, None, None]) -> None:
        with self._reloading:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _apply(self, configs: list[ScrapeConfig]) -> None:
        wanted = {config.job_name: config for config in configs}
        # Made first: a configuration whose certificates cannot be read changes nothing.
        fresh = {
            job: ScrapePool(
                config, self._appender, self._timing, self._endings, self._memory, self._discoveries
            )
            for job, config in wanted.items()
            if job not in self._pools or self._pools[job].config != config
        }
        pools = dict(self._pools)
        over = [pool for job, pool in pools.items() if job in fresh or job not in wanted]
        await asyncio.gather(*(pool.stop(grace_s=_STOP_GRACE_S) for pool in over))
        for pool in over:
            for loop in pool.loops():
                self._endings.add(loop)
        self._pools = {job: fresh[job] if job in fresh else pools[job] for job in wanted}
        for pool in fresh.values():
            pool.start()

    def _alive_with(self, labels: Labels) -> Handles:
        """The living series of the targets that have these labels."""
        loops = (loop for pool in self._current() for loop in pool.loops() if loop.target.labels == labels)
        return np.concatenate([_NO_REFS, *(loop.living() for loop in loops)])

    async def _shut_down(self, grace_s: float) -> None:
        await asyncio.gather(*(pool.stop(grace_s=grace_s) for pool in self._current()))
        await self._endings.stop()
