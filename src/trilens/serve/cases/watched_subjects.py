"""Nodes and pods of the clusters that are watched, for whoever asks about one by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.model.workload import PodKey
from trilens.resolve.reading import section, text
from trilens.serve.cases.subjects import PodPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.cluster_intake import ClusterIntake

_WITHIN_S: Final = 5.0  # somebody waits


@dataclass(frozen=True, slots=True)
class WatchedSubjects:
    """Thread-safe; each raises IntakeError while the clusters are too busy. `clusters` is None where none is
    watched."""

    clusters: ClusterIntake | None

    def nodes(self) -> Iterator[tuple[str, str]]:
        """Each with its cluster before it."""
        for state in self.clusters.present(_WITHIN_S) if self.clusters is not None else ():
            yield from ((state.cluster, node.node) for node in state.nodes)

    def pods(self, name: str) -> Iterator[PodPlace]:
        if self.clusters is None:
            return
        for cluster in self.clusters.names:
            for pod in self.clusters.pods_of(cluster, lambda one: one.name == name, _WITHIN_S):
                key = PodKey(cluster, pod.namespace, pod.name, pod.uid)
                yield PodPlace(key, text(section(pod.body, "spec"), "nodeName"))
