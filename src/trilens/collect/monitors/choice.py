"""Which monitors are taken: all, those with certain labels, or those that a Prometheus object selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.collect.monitors.job import GROUP, SERVICE_MONITOR
from trilens.collect.monitors.selector import LabelSelector
from trilens.model.kubernetes import GroupKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.model.kubernetes import KubeObject

PROMETHEUS: Final = GroupKind(GROUP, "Prometheus")


def has_labels(monitor: KubeObject, wanted: Mapping[str, str]) -> bool:
    return all(monitor.labels.get(name) == value for name, value in wanted.items())


def is_selected(
    monitor: KubeObject, servers: Iterable[KubeObject], namespaces: Mapping[str, KubeObject]
) -> bool:
    """By at least one Prometheus. `namespaces` are the Namespace objects by name."""
    return any(_selects(server, monitor, namespaces) for server in servers)


def _selects(server: KubeObject, monitor: KubeObject, namespaces: Mapping[str, KubeObject]) -> bool:
    spec = server.body.get("spec") or {}
    what = "serviceMonitor" if monitor.group_kind == SERVICE_MONITOR else "podMonitor"
    labels, places = spec.get(f"{what}Selector"), spec.get(f"{what}NamespaceSelector")
    if labels is None or not LabelSelector.read(labels).matches(monitor.labels):
        return False  # none is selected unless something is said; {} selects all
    if places is None:
        return monitor.namespace == server.namespace
    namespace = namespaces.get(monitor.namespace)
    return LabelSelector.read(places).matches(namespace.labels if namespace is not None else {})
