"""What nodes should have of GPUs against what reports: which are lost, and where nothing is known."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trilens.model.gpu import Gpu
    from trilens.resolve.gpus.books import SilentGpu
    from trilens.resolve.gpus.cluster_view import ClusterView


class NodeGpus(NamedTuple):
    """Devices, or instances where only these can be counted. `lost` is None for a node of which no GPU
    reports: its exporter may be what is missing, and unknown is not zero."""

    cluster: str
    node: str
    expected: int
    reporting: int
    lost: int | None
    named: tuple[SilentGpu, ...]  # of the lost ones those that are known, having reported before

    @property
    def is_blind(self) -> bool:
        return self.lost is None


def compare(
    views: Iterable[ClusterView], reporting: Collection[Gpu], silent: Iterable[SilentGpu]
) -> list[NodeGpus]:
    here: defaultdict[tuple[str, str], list[Gpu]] = defaultdict(list)
    for gpu in reporting:
        here[gpu.cluster, gpu.node].append(gpu)
    quiet: defaultdict[tuple[str, str], list[SilentGpu]] = defaultdict(list)
    for gone in silent:
        quiet[gone.gpu.cluster, gone.gpu.node].append(gone)
    alive = {gpu.key.uuid for gpu in reporting}  # perhaps on another node, or divided anew
    found = []
    for view in views:
        for node in view.nodes:
            name, capacity = node.name, node.capacity
            if capacity is None:
                continue
            gpus = here.get((view.cluster, name), [])
            count = len(gpus) if capacity.counts_instances else len({gpu.key.uuid for gpu in gpus})
            lost = max(capacity.expected - count, 0) if gpus else None
            gone_here = quiet.get((view.cluster, name), [])
            named = gone_here if capacity.counts_instances else _devices(gone_here, alive)
            found.append(
                NodeGpus(view.cluster, name, capacity.expected, count, lost, tuple(named[: lost or 0]))
            )
    return found


def _devices(silent: Iterable[SilentGpu], alive: Collection[str]) -> list[SilentGpu]:
    """Each device once, though all its instances went with it."""
    seen: dict[str, SilentGpu] = {}
    for gone in silent:
        if gone.gpu.key.uuid not in alive:
            seen.setdefault(gone.gpu.key.uuid, gone)
    return list(seen.values())
