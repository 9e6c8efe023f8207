"""Nodes: what they are, what they have, and whether they are well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.kube_state.quantity import amounts
from trilens.resolve.kube_state.sample import StateSample, condition_statuses, conditions_of, created
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import KubeObject

_ROLE: Final = "node-role.kubernetes.io/"


def node_labels(node: KubeObject) -> dict[str, str]:
    return {"node": node.name}


def node_samples(node: KubeObject) -> Iterator[StateSample]:
    spec, status = section(node.body, "spec"), section(node.body, "status")
    yield _info(node)
    yield from created("kube_node_created", node)
    yield StateSample("kube_node_spec_unschedulable", float(spec.get("unschedulable") is True))
    for label in node.labels:
        if label.startswith(_ROLE):
            yield StateSample("kube_node_role", 1, {"role": label.removeprefix(_ROLE)})
    for taint in items(spec, "taints"):
        labels = {name: text(taint, name) for name in ("key", "value", "effect")}
        yield StateSample("kube_node_spec_taint", 1, labels)
    for condition in conditions_of(node):
        yield from condition_statuses(
            "kube_node_status_condition",
            text(condition, "status"),
            "status",
            {"condition": text(condition, "type")},
        )
    yield from amounts("kube_node_status_capacity", section(status, "capacity"), of_node=True)
    yield from amounts("kube_node_status_allocatable", section(status, "allocatable"), of_node=True)


def _info(node: KubeObject) -> StateSample:
    spec, status = section(node.body, "spec"), section(node.body, "status")
    told = section(status, "nodeInfo")
    internal = (
        text(address, "address")
        for address in items(status, "addresses")
        if text(address, "type") == "InternalIP"
    )
    return StateSample(
        "kube_node_info",
        1,
        {
            "kernel_version": text(told, "kernelVersion"),
            "os_image": text(told, "osImage"),
            "container_runtime_version": text(told, "containerRuntimeVersion"),
            "kubelet_version": text(told, "kubeletVersion"),
            "kubeproxy_version": text(told, "kubeProxyVersion"),
            "provider_id": text(spec, "providerID"),
            "pod_cidr": text(spec, "podCIDR"),
            "system_uuid": text(told, "systemUUID"),
            "internal_ip": next(internal, ""),
        },
    )
