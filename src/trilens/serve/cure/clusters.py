"""The clusters in which something may be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.kubernetes.intake import access_to
from trilens.collect.kubernetes.writes import ObjectWrites
from trilens.diagnose.cure.changes import CORDONED
from trilens.model.errors import NotFound
from trilens.serve.cases.kinds import CASE_KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.model.fix import FixTarget
    from trilens.settings.kubernetes import KubernetesSettings


class CuredClusters:
    """Belongs to one event loop; `close` it there."""

    def __init__(self, settings: KubernetesSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._writes: dict[str, ObjectWrites] = {}

    async def close(self) -> None:
        for one in self._writes.values():
            await one.close()

    def __contains__(self, name: str) -> bool:
        return name in self._settings.clusters

    def of(self, target: FixTarget) -> ObjectWrites:
        name = target.cluster
        if name not in self._writes:
            if name not in self:
                raise NotFound(f"no cluster {name!r} is watched", hint="name it in kubernetes.clusters")
            access = access_to(self._settings.clusters[name], self._folder)
            self._writes[name] = ObjectWrites(access, CASE_KINDS)
        return self._writes[name]

    async def closed_besides(self, node: FixTarget) -> frozenset[str]:
        """The other nodes that Trilens has closed. By the label on the nodes themselves: it is right after
        any restart, whoever uncordons, and also where another server of Trilens did it."""
        marked = await self.of(node).labelled(node, CORDONED)
        closed = {one["metadata"]["name"] for one in marked if (one.get("spec") or {}).get("unschedulable")}
        return frozenset(closed - {node.name})
