"""The server's own metrics in its own store, so that its own rules watch it as they watch all else."""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import StoreError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.serve.access.told_addresses import is_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilens.collect.target import TargetStatus
    from trilens.model.labels import Labels
    from trilens.serve.self_metrics import SelfMetrics
    from trilens.store.store import Store

log = logging.getLogger(__name__)

JOB: Final = "trilens"  # as a Prometheus that scrapes it is told to call it (docs/self-monitoring.md)
_EVERY_S: Final = 15.0


class SelfSeries:
    """A thread of its own. While this server scrapes itself, that counts, and nothing is told twice."""

    def __init__(
        self,
        metrics: SelfMetrics,
        store: Store,
        instance: str,
        is_scraped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._metrics = metrics
        self._is_scraped = is_scraped
        self._store = store
        self._labels = {"job": JOB, "instance": instance}
        self._series = CurrentSeries(store)
        self._described: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilens-own-series", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def tell(self, now_ms: int) -> None:
        """All of them, once. Raises StoreError."""
        samples: dict[Labels, float] = {}
        for family in self._metrics.registry.collect() if not self._is_scraped() else ():
            if family.name not in self._described:
                self._store.describe(_shown(family.name, family.type), family.type, family.documentation, "")
                self._described.add(family.name)
            for sample in family.samples:
                labels = make_labels({**self._labels, **sample.labels, METRIC_NAME: sample.name})
                samples[labels] = sample.value
        self._series.write(samples, now_ms)

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self.tell(time.time_ns() // 1_000_000)
            except StoreError:  # the store has said why, and TrilensSilent will
                continue
            except Exception:  # a defect here must not end it for good
                log.exception("the server's own metrics were not kept")


def scrapes_itself(targets: Iterable[TargetStatus], port: int) -> bool:
    """Whether one that answers is this server, on that port: known by its address, or the machine's name."""
    for target in targets:
        if f":{port}/" in target.scrape_url and target.health == "up":
            parts = urlsplit(target.scrape_url)
            host = parts.hostname or ""
            is_own = host in ("localhost", socket.gethostname()) or is_here(host)
            if is_own and parts.port == port and parts.path == "/metrics":
                return True
    return False


def _shown(name: str, kind: str) -> str:
    """Counters are called so when they are shown."""
    return f"{name}_total" if kind == "counter" else name
