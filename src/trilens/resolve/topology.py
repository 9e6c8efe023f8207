"""Where a node stands in the building and in the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.settings.topology import TopologySettings


class Place(NamedTuple):
    """None: no label says."""

    zone: str | None
    rack: str | None
    switch: str | None
    nvlink_domain: str | None


def place_of(node: KubeObject, settings: TopologySettings) -> Place:
    def first(keys: tuple[str, ...]) -> str | None:
        return next((node.labels[key] for key in keys if node.labels.get(key)), None)

    return Place(
        first(settings.zone), first(settings.rack), first(settings.switch), first(settings.nvlink_domain)
    )
