"""What each role makes targets of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from trilens.collect.discovery.base import ADDRESS, TargetLabels
from trilens.collect.discovery.kubernetes.endpoints import endpoint_slice_targets, endpoints_targets
from trilens.collect.discovery.kubernetes.kinds import ENDPOINT_SLICE, ENDPOINTS, NODE, POD, SERVICE
from trilens.collect.discovery.kubernetes.meta_labels import (
    META,
    NAMESPACE,
    container_labels,
    container_port_labels,
    flag,
    host_port,
    label_name,
    object_labels,
    part,
    parts,
    pod_labels,
    service_labels,
)
from trilens.model.kubernetes import KubeObject

if TYPE_CHECKING:
    from trilens.collect.discovery.kubernetes.known import Known
    from trilens.collect.kubernetes.watched_kind import WatchedKind

log = logging.getLogger(__name__)

# The first of these that a node has is where it is scraped.
_ADDRESS_TYPES: Final = (
    "InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "LegacyHostIP", "Hostname",
)  # fmt: skip

MakeTargets: TypeAlias = Callable[[KubeObject, "Known"], Iterable[TargetLabels]]


class Role(NamedTuple):
    kind: WatchedKind
    targets: MakeTargets
    joined: tuple[WatchedKind, ...] = ()
    on_nodes: bool = False  # `attach_metadata` can say more about where its targets run


def node_targets(node: KubeObject, _known: Known) -> Iterator[TargetLabels]:
    addresses: dict[str, str] = {}
    for address in parts(node.body, "status", "addresses"):
        addresses.setdefault(address.get("type") or "", address.get("address") or "")
    host = next((addresses[kind] for kind in _ADDRESS_TYPES if kind in addresses), None)
    if host is None:
        log.warning("a node has no address and is no target", extra={"node": node.name})
        return
    port = part(node.body, "status", "daemonEndpoints", "kubeletEndpoint").get("Port") or 0
    yield {
        **object_labels(node, "node"),
        META + "node_provider_id": part(node.body, "spec").get("providerID") or "",
        **{META + "node_address_" + label_name(kind): value for kind, value in addresses.items()},
        ADDRESS: host_port(host, port),
        "instance": node.name,
    }


def pod_targets(pod: KubeObject, known: Known) -> Iterator[TargetLabels]:
    ip = part(pod.body, "status").get("podIP")
    if not ip:  # it has not started, or was evicted
        return
    shared = {**pod_labels(pod), NAMESPACE: pod.namespace}
    node = known.node(part(pod.body, "spec").get("nodeName") or "")
    if node is not None:
        shared.update(object_labels(node, "node"))
    for list_name, statuses, is_init in (
        ("containers", "containerStatuses", False),
        ("initContainers", "initContainerStatuses", True),
    ):
        ids = {
            status.get("name"): status.get("containerID") for status in parts(pod.body, "status", statuses)
        }
        for container in parts(pod.body, "spec", list_name):
            own = {
                **shared,
                **container_labels(container),
                META + "pod_container_id": ids.get(container.get("name")) or "",
                META + "pod_container_init": flag(is_init),
            }
            ports = container.get("ports") or ()
            if not ports:  # the user says which in relabel_configs
                yield {**own, ADDRESS: ip}
            for port in ports:
                where = host_port(ip, port.get("containerPort") or 0)
                yield {**own, **container_port_labels(port), ADDRESS: where}


def service_targets(service: KubeObject, _known: Known) -> Iterator[TargetLabels]:
    spec = part(service.body, "spec")
    kind = spec.get("type") or ""
    shared = {**service_labels(service), META + "service_type": kind}
    if kind == "ExternalName":
        shared[META + "service_external_name"] = spec.get("externalName") or ""
    else:
        shared[META + "service_cluster_ip"] = spec.get("clusterIP") or ""
    if kind == "LoadBalancer":
        shared[META + "service_loadbalancer_ip"] = spec.get("loadBalancerIP") or ""
    for port in parts(spec, "ports"):
        number = port.get("port") or 0
        yield {
            **shared,
            ADDRESS: host_port(f"{service.name}.{service.namespace}.svc", number),
            META + "service_port_name": port.get("name") or "",
            META + "service_port_number": str(number),
            META + "service_port_protocol": port.get("protocol") or "",
        }


ROLES: Final = {
    "node": Role(NODE, node_targets),
    "pod": Role(POD, pod_targets, on_nodes=True),
    "service": Role(SERVICE, service_targets),
    "endpoints": Role(ENDPOINTS, endpoints_targets, joined=(SERVICE, POD), on_nodes=True),
    "endpointslice": Role(ENDPOINT_SLICE, endpoint_slice_targets, joined=(SERVICE, POD), on_nodes=True),
}
