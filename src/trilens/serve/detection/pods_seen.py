"""The pods of workloads as scenes show them, with those that went away lately."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.detect.scene import PodView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.resolve.present import ClusterState, PodState


class PodsSeen:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._views: dict[PodKey, tuple[PodState, PodView]] = {}
        self._of: dict[PodKey, WorkloadKey] = {}

    @property
    def workloads(self) -> Mapping[PodKey, WorkloadKey]:
        """Of the pods that are there."""
        return self._of

    def look(self, clusters: Iterable[ClusterState]) -> Mapping[WorkloadKey, list[PodView]]:
        views: dict[PodKey, tuple[PodState, PodView]] = {}
        of: dict[PodKey, WorkloadKey] = {}
        found: defaultdict[WorkloadKey, list[PodView]] = defaultdict(list)
        for cluster in clusters:
            for workload in cluster.workloads:
                key = workload.record.key
                of.update((pod.pod, key) for pod in workload.pods)
                for pod in (*workload.pods, *workload.departed):
                    known = self._views.get(pod.pod)
                    if known is None or known[0] is not pod:
                        known = (pod, _view(pod))
                    views[pod.pod] = known
                    found[key].append(known[1])
        self._views, self._of = views, of
        return found


def _view(pod: PodState) -> PodView:
    return PodView(
        pod.pod,
        pod.node,
        pod.state,
        pod.reason,
        pod.exit_code,
        pod.restarts,
        pod.changed_ms,
        pod.created_ms,
        pod.asked_to_go_ms,
        pod.gone_ms,
    )
