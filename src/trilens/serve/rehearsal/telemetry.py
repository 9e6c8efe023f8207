"""What the exporters and inference servers of a simulated cluster say, scraped into the store."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.collect.appender import Appender, ScrapeStats
from trilens.collect.config import ScrapeConfig
from trilens.collect.ingest import Batch, TargetIngest
from trilens.model.labels import make_labels
from trilens.simulate.over_http.exporters import DCGM_PORT
from trilens.simulate.world import Silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.world import World
    from trilens.store.store import Store

_MINUTE: Final = timedelta(minutes=1)
_SCRAPE: Final = ScrapeConfig(job_name="simulated", scrape_interval=_MINUTE, scrape_timeout=_MINUTE)


class ScrapedTelemetry:
    def __init__(self, world: World, store: Store, cluster: str, *, training: bool = False) -> None:
        """`training` programs are left out unless they are wanted: their ranks tell more."""
        self._world = world
        self._training = training
        self._store = store
        self._cluster = cluster
        self._appender = Appender(store, ScrapeStats())
        self._targets: dict[str, TargetIngest] = {}
        self._batches: list[Batch] = []

    def look(self) -> None:
        """One scrape of each: those that are gone end."""
        here: set[str] = set()
        for node in self._world.nodes:
            here.add(node)
            labels = {"job": "dcgm", "instance": f"{node}:{DCGM_PORT}", "node": node}
            self._scrape(node, labels, partial(self._world.dcgm_text, node))
        for uid, endpoint in self._world.metrics_endpoints().items():
            if endpoint.trains and not self._training:
                continue
            here.add(uid)
            labels = {"job": "programs", "namespace": endpoint.namespace, "pod": endpoint.pod}
            labels["instance"] = f"{endpoint.pod}:{endpoint.port}"
            self._scrape(uid, labels, partial(self._world.metrics_text, uid))
        for gone in self._targets.keys() - here:
            self._end(self._targets.pop(gone), self._world.now_ms)
        self._append()

    def stop(self) -> None:
        """Nobody scrapes them any more, as far as this one knows."""
        for target in self._targets.values():
            self._end(target, self._world.now_ms + 1)  # what they last said stays said
        self._targets.clear()
        self._append()

    def _scrape(self, name: str, labels: dict[str, str], text: Callable[[], bytes]) -> None:
        target = self._targets.get(name)
        if target is None:
            found = make_labels({**labels, "cluster": self._cluster})
            target = self._targets[name] = TargetIngest(_SCRAPE, found, self._store)
        try:
            body = text()
        except (Silent, KeyError):
            self._end(target, self._world.now_ms)
            return
        now_ms = self._world.now_ms
        read = target.read(body, openmetrics=False, t_ms=now_ms)
        self._batches.append(read.batch)
        if len(read.stale):
            self._batches.append(self._appender.stale(read.stale, now_ms))

    def _end(self, target: TargetIngest, at_ms: int) -> None:
        ended = target.fail()
        if len(ended):
            self._batches.append(self._appender.stale(ended, at_ms))

    def _append(self) -> None:
        """All of a look at once: a hundred small ones take ten times as long."""
        batches, self._batches = self._batches, []
        if batches:
            self._appender.append(Batch(*(np.concatenate(column) for column in zip(*batches, strict=True))))
