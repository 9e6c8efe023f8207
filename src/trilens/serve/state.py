"""The running system seen from outside: is it ready, what does it hold, how is it doing."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from trilens.serve.masking import masked
from trilens.serve.page import Overview, bytes_text
from trilens.serve.probes import Readiness
from trilens.serve.state_metrics import gauge, scrape_metrics, store_metrics, write_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from trilens.collect.manager import ScrapeManager
    from trilens.collect.remote_write import RemoteWriteReceiver
    from trilens.serve.runner import QueryRunner
    from trilens.store.store import Store, StoreStats

_STATS_AGE_S = 5.0  # sizes on disk cost a read from the engine, and change slowly


class SystemState:
    """`store`, `scrapes` and `receiver` are None where another server holds the samples."""

    def __init__(
        self,
        runner: QueryRunner,
        store: Store | None,
        scrapes: ScrapeManager | None,
        receiver: RemoteWriteReceiver | None,
        source_url: str | None,
    ) -> None:
        self._runner = runner
        self._store = store
        self._scrapes = scrapes
        self._receiver = receiver
        self._source_url = source_url
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._known_stats: StoreStats | None = None
        self._known_at = 0.0

    def readiness(self) -> Readiness:
        details: dict[str, object] = {}
        ready = True
        if self._store is not None:
            health = self._store.health()
            ready = health.ready
            details["store"] = asdict(health)
        if self._source_url is not None:
            details["source"] = {"url": masked(self._source_url)}
        if self._scrapes is not None:
            details["scrape"] = self._target_counts(self._scrapes)
        return Readiness(ready, details)

    def overview(self) -> Overview:
        facts: list[tuple[str, str]] = []
        notices: list[str] = []
        if self._store is not None:
            stats, health = self._stats(self._store), self._store.health()
            samples = stats.samples + stats.pending_samples
            facts += [("series", f"{stats.series:,}"), ("samples", f"{samples:,}")]
            facts.append(("on disk", bytes_text(stats.disk_bytes)))
            if health.read_only_reason:
                notices.append(f"Writes are refused: {health.read_only_reason}")
            notices += [f"Damage found at start: {damage}" for damage in health.damage]
        if self._scrapes is not None:
            counts = self._target_counts(self._scrapes)
            facts.append(("targets up", f"{counts['up']:,} of {sum(counts.values()):,}"))
        facts.append(("queries running", str(self._runner.running)))
        source = f"Queries are answered by {masked(self._source_url)}." if self._source_url else ""
        targets = self._scrapes.targets() if self._scrapes is not None else []
        return Overview(time.monotonic() - self._began, source, notices, facts, targets)

    def metrics(self) -> Iterator[Metric]:
        yield gauge("trilens_queries_running", "Queries that wait or run.", self._runner.running)
        if self._scrapes is not None:
            yield from scrape_metrics(self._scrapes.stats(), self._target_counts(self._scrapes))
        if self._receiver is not None:
            yield from write_metrics(self._receiver.stats)
        if self._store is not None:
            yield from store_metrics(self._stats(self._store), self._store.health())

    def _stats(self, store: Store) -> StoreStats:
        now = time.monotonic()
        with self._lock:
            if self._known_stats is None or now - self._known_at > _STATS_AGE_S:
                self._known_stats, self._known_at = store.stats(), now
            return self._known_stats

    def _target_counts(self, scrapes: ScrapeManager) -> dict[str, int]:
        counts = {"up": 0, "down": 0, "unknown": 0}
        for target in scrapes.targets():
            counts[target.health] += 1
        return counts
