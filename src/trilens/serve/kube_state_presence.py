"""Whether a kube-state-metrics is scraped: then it has the word, and our own series of that cluster end."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from trilens.model.errors import TrilensError
from trilens.serve.kube_state_page import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.serve.kube_state import KubeStateExport
    from trilens.serve.own_queries import OwnQueries, Shown

log = logging.getLogger(__name__)

# Some pods of each kube-state-metrics with the time of their last sample: the labels of one show of which
# cluster it tells. What we wrote ourselves has no job, and what a Prometheus scraped from us has the marker.
QUERY: Final = (
    'topk by (cluster, job, instance) (5, timestamp(kube_pod_info{job!=""}))'
    f" unless on (job, instance) {MARKER}"
)
_FRESH_S: Final = 150.0  # twice the longest interval that kube-state-metrics is usually scraped at, and some
_LOOK_S: Final = 20.0


class KubeStatePresence:
    """Asks where the samples are, here or at `source.url`, for as long as it runs."""

    def __init__(self, queries: OwnQueries, export: KubeStateExport) -> None:
        self._queries = queries
        self._export = export
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._export.mode == "auto":
            self._task = asyncio.create_task(self._look_often())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def look(self) -> None:
        """Raises TrilensError when there is no answer: what was found last then stays."""
        shown = await self._queries.vector(QUERY)
        self._export.found(foreign_jobs(shown, self._export, time.time()))

    async def _look_often(self) -> None:
        is_told = False
        while True:
            try:
                await self.look()
                is_told = False
            except TrilensError as e:
                if not is_told:
                    log.warning("cannot tell whether kube-state-metrics is scraped", extra={"error": str(e)})
                    is_told = True
            except Exception:  # a defect in looking must not end it
                log.exception("looking for a kube-state-metrics failed")
            await asyncio.sleep(_LOOK_S)


class KnownPods(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...

    def is_of(self, cluster: str, uid: str) -> bool: ...


def foreign_jobs(shown: Iterable[Shown], known: KnownPods, now_s: float) -> dict[str, str]:
    """By cluster: the job that scrapes a kube-state-metrics of it, told by its `cluster` label, or by a pod
    of that cluster among its series, whatever the scrape calls the cluster."""
    jobs: dict[str, str] = {}
    for labels, at_s in shown:
        if at_s < now_s - _FRESH_S:
            continue
        for cluster in known.names:
            if labels.get("cluster") == cluster or known.is_of(cluster, labels.get("uid", "")):
                jobs[cluster] = labels.get("job", "")
    return jobs
