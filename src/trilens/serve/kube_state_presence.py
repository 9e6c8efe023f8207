"""Whether a kube-state-metrics is scraped: then it has the word, and our own series of that cluster end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from trilens.serve.kube_state_page import MARKER
from trilens.serve.looking_often import LookingOften

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.serve.kube_state import KubeStateExport
    from trilens.serve.own_queries import OwnQueries, Shown

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
        unanswered = "cannot tell whether kube-state-metrics is scraped"
        self._looking = LookingOften(self.look, _LOOK_S, unanswered)

    async def start(self) -> None:
        if self._export.mode == "auto":
            await self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()

    async def look(self) -> None:
        """Raises TrilensError when there is no answer: what was found last then stays."""
        shown = await self._queries.vector(QUERY)
        self._export.found(foreign_jobs(shown, self._export, time.time()))


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
