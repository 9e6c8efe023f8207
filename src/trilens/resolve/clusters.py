"""The resolvers of several clusters behind one set of ears: each object goes to that of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.resolve.resolver import ClusterResolver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import GroupKind, KubeObject
    from trilens.model.workload import WorkloadKey
    from trilens.resolve.intervals import IntervalSink
    from trilens.settings.ownership import OwnershipSettings
    from trilens.settings.topology import TopologySettings


class Clusters:
    def __init__(self, ownership: OwnershipSettings, topology: TopologySettings, sink: IntervalSink) -> None:
        self._ownership = ownership
        self._topology = topology
        self._sink = sink
        self._resolvers: dict[str, ClusterResolver] = {}

    def __getitem__(self, cluster: str) -> ClusterResolver:
        found = self._resolvers.get(cluster)
        if found is None:
            found = ClusterResolver(cluster, self._ownership, self._topology, self._sink)
            self._resolvers[cluster] = found
        return found

    def __iter__(self) -> Iterator[ClusterResolver]:
        yield from tuple(self._resolvers.values())

    def changed(self, obj: KubeObject) -> None:
        self[obj.cluster].changed(obj)

    def removed(self, obj: KubeObject) -> None:
        self[obj.cluster].removed(obj)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        self[cluster].synced(kind)

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        self[cluster].refused(kind, remedy)

    def settle(self, at_ms: int) -> frozenset[WorkloadKey]:
        return frozenset().union(*(resolver.settle(at_ms) for resolver in self))
