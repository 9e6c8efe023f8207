"""The pods of workloads as scenes show them; one that has vanished is gone, and shown as such for a while."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.detect.scene import PodView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.resolve.present import ClusterState, PodState

_GONE_MS: Final = 10 * 60_000


class PodsSeen:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._views: dict[PodKey, tuple[PodState, PodView]] = {}
        self._of: dict[PodKey, WorkloadKey] = {}
        self._gone: dict[PodKey, tuple[WorkloadKey, PodView]] = {}

    @property
    def workloads(self) -> Mapping[PodKey, WorkloadKey]:
        """Of the pods that are there."""
        return self._of

    def look(self, clusters: Iterable[ClusterState], now_ms: int) -> Mapping[WorkloadKey, list[PodView]]:
        views: dict[PodKey, tuple[PodState, PodView]] = {}
        of: dict[PodKey, WorkloadKey] = {}
        found: defaultdict[WorkloadKey, list[PodView]] = defaultdict(list)
        for cluster in clusters:
            for workload in cluster.workloads:
                key = workload.record.key
                for pod in workload.pods:
                    known = self._views.get(pod.pod)
                    if known is None or known[0] is not pod:
                        known = (pod, PodView(*pod[:7]))
                    views[pod.pod], of[pod.pod] = known, key
                    found[key].append(known[1])
        for pod_key in self._views.keys() - views.keys():
            view = self._views[pod_key][1]._replace(state="Gone", changed_ms=now_ms)
            self._gone[pod_key] = (self._of[pod_key], view)
        self._views, self._of = views, of
        for pod_key, (key, view) in list(self._gone.items()):
            if pod_key in views or now_ms - (view.changed_ms or 0) > _GONE_MS:
                del self._gone[pod_key]
            else:
                found[key].append(view)
        return found
