"""Where a GPU is, and which pod is meant: reporters know the host's name, and often not the cluster's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.workload import PodKey
    from trilens.resolve.gpus.cluster_view import ClusterView


class GpuPlace(NamedTuple):
    cluster: str  # "" where no watched cluster has the node
    node: str
    is_known: bool  # whether the node is one of the cluster's


class Places:
    """Of all clusters. A name that two of them have means neither, unless the cluster is told."""

    def __init__(self, views: Sequence[ClusterView]) -> None:
        self.clusters = frozenset(view.cluster for view in views)
        self._hosts: dict[tuple[str, str], str | None] = {}
        self._anywhere: dict[str, GpuPlace | None] = {}
        for view in views:
            for node in view.nodes:
                self._hosts[view.cluster, node.name] = node.name
        for view in views:
            for node in view.nodes:
                for alias in {node.name, *node.aliases}:
                    known = self._hosts.setdefault((view.cluster, alias), node.name)
                    if known != node.name and alias != known:
                        self._hosts[view.cluster, alias] = None
        for (cluster, alias), name in self._hosts.items():
            place = GpuPlace(cluster, name, True) if name is not None else None
            if alias in self._anywhere:
                place = None
            self._anywhere[alias] = place
        self._cache: dict[tuple[str, tuple[str, ...]], GpuPlace] = {}

    def of(self, cluster: str, hosts: tuple[str, ...]) -> GpuPlace:
        """`cluster` is what the reporter says, "" if it does not; `hosts` what it calls the node."""
        found = self._cache.get((cluster, hosts))
        if found is None:
            found = self._cache[cluster, hosts] = self._find(cluster, hosts)
        return found

    def _find(self, cluster: str, hosts: tuple[str, ...]) -> GpuPlace:
        for host in hosts:
            if cluster:
                node = self._hosts.get((cluster, host))
                if node is not None:
                    return GpuPlace(cluster, node, True)
            elif (place := self._anywhere.get(host)) is not None:
                return place
        return GpuPlace(cluster, hosts[0] if hosts else "", False)


class Pods:
    """The pods that are there, by what people call them."""

    def __init__(self, views: Sequence[ClusterView]) -> None:
        self._named: dict[tuple[str, str, str], PodKey] = {}
        self._anywhere: dict[tuple[str, str], PodKey | None] = {}
        self._no_workload: set[tuple[str, ...]] = set()
        self._nodes: dict[PodKey, str] = {}
        self._known_nodes = {(view.cluster, node.name) for view in views for node in view.nodes}
        for view in views:
            # Of two of one name, one of them about to go, the newer one comes last and stays.
            for key, interval in sorted(view.members.items(), key=lambda pair: pair[1].from_ms):
                self._named[key[:3]] = key
                self._nodes[key] = interval.node
            for key in view.no_workload:
                self._no_workload |= {key[:3], key[1:3]}
        for name, key in self._named.items():
            self._anywhere[name[1:]] = None if name[1:] in self._anywhere else key

    def find(self, cluster: str, namespace: str, name: str) -> PodKey | None:
        if cluster:
            return self._named.get((cluster, namespace, name))
        return self._anywhere.get((namespace, name))

    def is_no_workload(self, cluster: str, namespace: str, name: str) -> bool:
        return ((cluster, namespace, name) if cluster else (namespace, name)) in self._no_workload

    def has_no_node(self, pod: PodKey) -> bool:
        return not self._nodes.get(pod)

    def runs_elsewhere(self, pod: PodKey, cluster: str, node: str) -> str | None:
        """The node that a pod is on, where that is surely not this one: a host by a name that its cluster
        does not have may be any of its nodes."""
        its_own = self._nodes.get(pod, "")
        if not its_own or its_own == node or cluster != pod.cluster:
            return None
        return its_own if (cluster, node) in self._known_nodes else None
