"""All clusters that the settings name, each followed on its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trilens.collect.kubernetes.access import Access, InClusterAccess
from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.cluster import ClusterWatch
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.collect.kubernetes.sink import ObjectSink
    from trilens.collect.kubernetes.state import ClusterState
    from trilens.collect.kubernetes.timing import WatchTiming
    from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings


class KubernetesIntake:
    """`run` it on an event loop until it is cancelled. A cluster that does not answer delays no other."""

    def __init__(
        self,
        settings: KubernetesSettings,
        folder: Path,
        sink: ObjectSink,
        *,
        timing: WatchTiming | None = None,
    ) -> None:
        """Raises ConfigError for a kubeconfig that cannot be used. `folder` is where the settings lie."""
        self._clusters = [
            _watch(name, cluster, folder, sink, timing) for name, cluster in settings.clusters.items()
        ]

    def states(self) -> list[ClusterState]:
        return [cluster.state() for cluster in self._clusters]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for cluster in self._clusters:
                tasks.create_task(cluster.run())


def _watch(
    name: str, settings: ClusterSettings, folder: Path, sink: ObjectSink, timing: WatchTiming | None
) -> ClusterWatch:
    try:
        kinds = choose(settings.leave_out, settings.add)
        access = access_to(settings, folder)
    except ConfigError as e:
        raise ConfigError(f"cluster {name!r}: {e.message}", hint=e.hint) from e
    return ClusterWatch(name, access, kinds, sink, namespaces=settings.namespaces, timing=timing)


def access_to(settings: ClusterSettings, folder: Path) -> Access:
    """Raises ConfigError where it cannot be used."""
    file = settings.kubeconfig_beside(folder)
    return InClusterAccess() if file is None else KubeconfigAccess(file, settings.context)
