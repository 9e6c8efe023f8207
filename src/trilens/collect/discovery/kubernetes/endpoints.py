"""Targets from the endpoints of services: Endpoints objects, and the EndpointSlices that came after them.

An endpoint that is a pod has the pod's labels as well, and the ports of its containers that the service does
not name are targets of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.collect.discovery.base import ADDRESS, TargetLabels
from trilens.collect.discovery.kubernetes.meta_labels import (
    META,
    NAMESPACE,
    PRESENT,
    container_labels,
    container_port_labels,
    container_ports,
    flag,
    host_port,
    label_name,
    object_labels,
    part,
    parts,
    pod_labels,
    service_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.collect.discovery.kubernetes.known import Known
    from trilens.collect.discovery.kubernetes.meta_labels import Part
    from trilens.model.kubernetes import KubeObject

_SLICE: Final = META + "endpointslice_"
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_CONTAINER_PROTOCOL: Final = META + "pod_container_port_protocol"


def endpoints_targets(endpoints: KubeObject, known: Known) -> Iterator[TargetLabels]:
    shared = {NAMESPACE: endpoints.namespace, **object_labels(endpoints, "endpoints")}
    service = known.service(endpoints.namespace, endpoints.name)
    if service is not None:
        shared.update(service_labels(service))
    pods = _Pods(known)
    for subset in parts(endpoints.body, "subsets"):
        for port in parts(subset, "ports"):
            for addresses, ready in (("addresses", True), ("notReadyAddresses", False)):
                for address in parts(subset, addresses):
                    target = _endpoint(address, port, ready)
                    referred = part(address, "targetRef")
                    is_node = referred.get("kind") == "Node"
                    node = address.get("nodeName") or (referred.get("name") if is_node else None)
                    target.update(_node_labels(known, node))
                    container = pods.join(referred, port.get("port"))
                    if _CONTAINER_PROTOCOL in container:  # here Prometheus says the service's, if they differ
                        container[_CONTAINER_PROTOCOL] = port.get("protocol") or ""
                    yield {**shared, **target, **container}
    for target in pods.other_ports():
        yield {**shared, **target}


def endpoint_slice_targets(piece: KubeObject, known: Known) -> Iterator[TargetLabels]:
    shared = {
        NAMESPACE: piece.namespace,
        _SLICE + "address_type": piece.body.get("addressType") or "",
        **object_labels(piece, "endpointslice"),
    }
    service = known.service(piece.namespace, piece.labels.get(_SERVICE_NAME, ""))
    if service is not None:
        shared.update(service_labels(service))
    pods = _Pods(known)
    for endpoint in parts(piece.body, "endpoints"):
        referred = part(endpoint, "targetRef")
        is_node = referred.get("kind") == "Node"
        node = referred.get("name") if is_node else endpoint.get("nodeName")
        described = {**_slice_endpoint(endpoint), **_node_labels(known, node)}
        for port in parts(piece.body, "ports"):
            described_port = _slice_port(port)
            container = pods.join(referred, port.get("port"))
            for address in endpoint.get("addresses") or ():
                number = port.get("port")
                where = address if number is None else host_port(address, number)
                yield {**shared, ADDRESS: where, **described_port, **described, **container}
    for target in pods.other_ports():
        yield {**shared, **target}


class _Pods:
    """The pods behind the endpoints of one object, and which of their ports had their turn."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._seen: dict[str, tuple[KubeObject, set[int | None]]] = {}

    def join(self, referred: Part, port: int | None) -> TargetLabels:
        """The labels of the pod, and of its container that has this port; none where it is no pod."""
        if referred.get("kind") != "Pod":
            return {}
        pod = self._known.pod(referred.get("namespace") or "", referred.get("name") or "")
        if pod is None:
            return {}
        self._seen.setdefault(pod.uid, (pod, set()))[1].add(port)
        labels = pod_labels(pod)
        matched: str | None = None
        for container, own in container_ports(pod):
            name = container.get("name")
            if own.get("containerPort") == port and name != matched:  # of a container, the first that fits
                matched = name
                labels.update({**container_labels(container), **container_port_labels(own)})
        return labels

    def other_ports(self) -> Iterator[TargetLabels]:
        for pod, ports in self._seen.values():
            ip = part(pod.body, "status").get("podIP")
            for container, own in container_ports(pod):
                number = own.get("containerPort") or 0
                if ip and number not in ports:
                    described = {**container_labels(container), **container_port_labels(own)}
                    yield {ADDRESS: host_port(ip, number), **described, **pod_labels(pod)}


def _endpoint(address: Part, port: Part, ready: bool) -> TargetLabels:
    labels = {
        ADDRESS: host_port(address.get("ip") or "", port.get("port") or 0),
        META + "endpoint_port_name": port.get("name") or "",
        META + "endpoint_port_protocol": port.get("protocol") or "",
        META + "endpoint_ready": flag(ready),
        META + "endpoint_node_name": address.get("nodeName") or "",
        META + "endpoint_hostname": address.get("hostname") or "",
    }
    return {**labels, **_referred(address, META + "endpoint_")}


def _slice_endpoint(endpoint: Part) -> TargetLabels:
    labels = {
        f"{_SLICE}endpoint_conditions_{name}": flag(value)
        for name, value in part(endpoint, "conditions").items()
        if name in ("ready", "serving", "terminating") and value is not None
    }
    for name, label in (("hostname", "hostname"), ("nodeName", "node_name"), ("zone", "zone")):
        if endpoint.get(name) is not None:
            labels[f"{_SLICE}endpoint_{label}"] = endpoint[name]
    # In v1beta1; in v1 it is what is left of an object that was written as v1beta1.
    topology = part(endpoint, "topology") or part(endpoint, "deprecatedTopology")
    for name, value in topology.items():
        labels[f"{_SLICE}endpoint_topology_{label_name(name)}"] = value
        labels[f"{_SLICE}endpoint_topology_present_{label_name(name)}"] = PRESENT
    return {**labels, **_referred(endpoint, _SLICE)}


def _slice_port(port: Part) -> TargetLabels:
    names = (("name", "port_name"), ("protocol", "port_protocol"), ("port", "port"),
             ("appProtocol", "port_app_protocol"))  # fmt: skip
    return {_SLICE + label: str(port[name]) for name, label in names if port.get(name) is not None}


def _referred(endpoint: Part, prefix: str) -> TargetLabels:
    referred = part(endpoint, "targetRef")
    if not referred:
        return {}
    return {
        prefix + "address_target_kind": referred.get("kind") or "",
        prefix + "address_target_name": referred.get("name") or "",
    }


def _node_labels(known: Known, name: str | None) -> TargetLabels:
    node = known.node(name) if name else None
    return {} if node is None else object_labels(node, "node")
