"""The running system seen from outside: is it ready, what does it hold, how is it doing."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.serve.page import Overview, bytes_text
from trilens.serve.probes import Readiness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from trilens.collect.manager import ScrapeManager
    from trilens.serve.runner import QueryRunner
    from trilens.store.store import Store, StoreStats

_STATS_AGE_S = 5.0


class SystemState:
    def __init__(
        self, store: Store | None, scrapes: ScrapeManager | None, runner: QueryRunner, source_url: str | None
    ) -> None:
        self._store = store
        self._scrapes = scrapes
        self._runner = runner
        self._source_url = source_url
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._known_stats: StoreStats | None = None
        self._known_at = 0.0

    def _stats(self, store: Store) -> StoreStats:
        """Sizes on disk cost a read from the engine and change slowly: asked for every few seconds at most."""
        now = time.monotonic()
        with self._lock:
            if self._known_stats is None or now - self._known_at > _STATS_AGE_S:
                self._known_stats, self._known_at = store.stats(), now
            return self._known_stats

    def readiness(self) -> Readiness:
        details: dict[str, object] = {}
        ready = True
        if self._store is not None:
            health = self._store.health()
            ready = health.ready
            details["store"] = {
                "ready": health.ready,
                "read_only_reason": health.read_only_reason,
                "damage": list(health.damage),
            }
        if self._source_url is not None:
            details["source"] = {"url": self._source_url}
        if self._scrapes is not None:
            details["scrape"] = self._target_counts()
        return Readiness(ready, details)

    def overview(self) -> Overview:
        targets = self._scrapes.targets() if self._scrapes is not None else []
        facts: list[tuple[str, str]] = []
        notices: list[str] = []
        if self._store is not None:
            stats, health = self._stats(self._store), self._store.health()
            facts += [("series", f"{stats.series:,}"), ("samples on disk", f"{stats.samples:,}")]
            facts.append(("disk", bytes_text(stats.disk_bytes)))
            if health.read_only_reason:
                notices.append(f"Writes are refused: {health.read_only_reason}")
            notices += [f"Damage found at start: {damage}" for damage in health.damage]
        if self._scrapes is not None:
            counts = self._target_counts()
            facts += [("targets up", str(counts["up"])), ("targets down", str(counts["down"]))]
        facts.append(("queries running", str(self._runner.running)))
        source = f"Queries are answered by {self._source_url}." if self._source_url else ""
        return Overview(time.monotonic() - self._began, source, notices, facts, targets)

    def metrics(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "trilens_queries_running", "Queries that wait or run.", value=self._runner.running
        )
        if self._scrapes is not None:
            targets = GaugeMetricFamily(
                "trilens_scrape_targets", "Scrape targets by health.", labels=["health"]
            )
            for health, count in self._target_counts().items():
                targets.add_metric([health], count)
            yield targets
            for name, value in asdict(self._scrapes.stats()).items():
                help_text = f"Scraping since start: {name.replace('_', ' ')}."
                yield CounterMetricFamily(f"trilens_scrape_{name}", help_text, value=value)
        if self._store is not None:
            yield from self._store_metrics(self._store)

    def _store_metrics(self, store: Store) -> Iterator[Metric]:
        stats, health = self._stats(store), store.health()
        yield GaugeMetricFamily(
            "trilens_store_read_only",
            "1 while writes are refused.",
            value=float(bool(health.read_only_reason)),
        )
        yield GaugeMetricFamily(
            "trilens_store_damage", "Damaged parts found at start.", value=len(health.damage)
        )
        for name, value in asdict(stats).items():
            if isinstance(value, int | float):
                yield GaugeMetricFamily(
                    f"trilens_store_{name}", f"Store: {name.replace('_', ' ')}.", value=value
                )

    def _target_counts(self) -> dict[str, int]:
        counts = {"up": 0, "down": 0, "unknown": 0}
        for target in self._scrapes.targets() if self._scrapes is not None else ():
            counts[target.health] += 1
        return counts
