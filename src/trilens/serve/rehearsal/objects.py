"""The objects of a simulated cluster, told to the resolvers in the order in which they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from trilens.collect.kubernetes.catalogue import ALL
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.sink import Several
from trilens.model.kubernetes import GroupKind
from trilens.resolve.clusters import Clusters
from trilens.resolve.gpus.cluster_view import view_of
from trilens.resolve.operators import BY_KIND
from trilens.resolve.pod_warnings import PodWarnings
from trilens.resolve.present import Present
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings
from trilens.simulate.objects import RESOURCES

if TYPE_CHECKING:
    from trilens.collect.kubernetes.sink import ObjectSink
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.gpus.cluster_view import ClusterView
    from trilens.resolve.present import ClusterState
    from trilens.resolve.resolver import ClusterResolver
    from trilens.simulate.objects import Resource
    from trilens.simulate.world import World
    from trilens.store.store import Store

_WATCHED = {kind.group_kind: kind for kind in ALL}


class FollowedObjects:
    def __init__(self, world: World, store: Store, cluster: str, also: ObjectSink | None = None) -> None:
        """`also` is told of every object, too."""
        self._world = world
        self._cluster = cluster
        self._reader = ObjectReader(cluster)
        self._clusters = Clusters(OwnershipSettings(), TopologySettings(), store.workloads)
        sinks: list[ObjectSink] = [self._clusters, PodWarnings(store.events)]
        self._heard_by = Several(*sinks, *([] if also is None else [also]))
        self._seen = 0
        self._present = Present()
        for kind in {*BY_KIND, *_WATCHED}:
            self._heard_by.synced(cluster, kind)

    def look(self) -> None:
        """Takes what changed since the last look. Owners that went are noticed before their pods go."""
        now_ms = self._world.now_ms
        changes = [
            (change, resource)
            for resource in RESOURCES
            if GroupKind(resource.group, resource.kind) in _WATCHED
            for change in self._world.objects.changes_since(self._seen, resource.group, resource.plural)
        ]
        for change, resource in sorted(changes, key=lambda one: one[0].resource_version):
            obj = self._read(resource, change.object)
            if change.type != "DELETED":
                self._heard_by.changed(obj)
                continue
            self._heard_by.removed(obj)
            if obj.kind not in ("Pod", "Event"):
                self._clusters.settle(now_ms)
        self._seen = self._world.objects.resource_version
        self._clusters.settle(now_ms)

    def _read(self, resource: Resource, manifest: dict[str, object]) -> KubeObject:
        kind = _WATCHED[GroupKind(resource.group, resource.kind)]
        return self._reader.read(kind, resource.version, orjson.dumps(manifest))

    # What GpuBindings asks of the clusters that are watched

    def settled(self) -> frozenset[str]:
        return frozenset({self._cluster})

    def gpu_views(self) -> list[ClusterView]:
        return [view_of(self._clusters[self._cluster], is_settled=True)]

    # What workload metrics are made of

    @property
    def resolver(self) -> ClusterResolver:
        return self._clusters[self._cluster]

    # What scenes for detectors are made of

    def present(self) -> list[ClusterState]:
        return [self._present.of(self._clusters[self._cluster])]
