"""What a cluster knows of its pods and nodes at a moment, as far as GPUs are concerned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trilens.resolve.accelerators import gpu_capacity
from trilens.resolve.gpus.annotations import GpuGroups, assigned
from trilens.resolve.machines import machine_of
from trilens.resolve.reading import items, section, text
from trilens.resolve.stages import started_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.kubernetes import KubeObject
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import PodKey
    from trilens.resolve.accelerators import GpuCapacity
    from trilens.resolve.gpus.annotations import Assigned
    from trilens.resolve.machines import SeenMachine
    from trilens.resolve.resolver import ClusterResolver

_HOSTNAME = "kubernetes.io/hostname"


class NodeView(NamedTuple):
    name: str
    aliases: frozenset[str]  # what else a reporter may call it
    capacity: GpuCapacity | None
    seen: SeenMachine | None = None  # the whole machine, as it was bought


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`is_settled` is False until the cluster was read through: a pod that is not here may be there. So may a
    node, where its nodes may not be read."""

    cluster: str
    members: Mapping[PodKey, MembershipInterval]
    no_workload: frozenset[PodKey] = frozenset()
    nodes: tuple[NodeView, ...] = ()
    assigned: Mapping[PodKey, tuple[Assigned, ...]] = field(default_factory=dict)
    is_settled: bool = True
    knows_nodes: bool = True
    started: Mapping[PodKey, int] = field(default_factory=dict)  # since when the containers of pods run


def view_of(resolver: ClusterResolver, *, is_settled: bool) -> ClusterView:
    pods = list(resolver.pods())
    groups = GpuGroups(pods)
    by_uid = {pod.uid: pod for pod in pods}
    members = dict(resolver.open_memberships)
    return ClusterView(
        resolver.cluster,
        members,
        frozenset(resolver.no_workload),
        tuple(
            NodeView(
                node.name,
                frozenset(_aliases(node)),
                gpu_capacity(node),
                machine_of(node, resolver.topology),
            )
            for node in resolver.nodes()
        ),
        {
            key: found
            for key in members
            if (pod := by_uid.get(key.uid)) is not None and (found := tuple(assigned(pod, groups)))
        },
        is_settled,
        resolver.knows_nodes,
        {
            key: max(started, pod.created_ms)
            for key in members
            if (pod := by_uid.get(key.uid)) is not None and (started := started_ms(pod)) is not None
        },
    )


def _aliases(node: KubeObject) -> Iterator[str]:
    names = [node.labels.get(_HOSTNAME, "")]
    names += [text(address, "address") for address in items(section(node.body, "status"), "addresses")]
    yield from filter(None, names)
    # A host may call itself by the first part of its name only.
    yield from (name.partition(".")[0] for name in (node.name, *names[:1]) if not name[:1].isdigit())
