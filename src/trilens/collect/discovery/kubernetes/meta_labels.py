"""The labels that Prometheus documents for Kubernetes objects, however they become targets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.collect.discovery.base import TargetLabels
    from trilens.model.kubernetes import KubeObject

META: Final = "__meta_kubernetes_"
NAMESPACE: Final = META + "namespace"
PRESENT: Final = "true"

_NO_LABEL_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_]")

Part = dict[str, Any]
"""Of an object's body."""


def label_name(text: str) -> str:
    return _NO_LABEL_CHARACTER.sub("_", text)


def part(body: Any, *path: str) -> Part:
    """What is under these names; nothing where there is nothing."""
    for name in path:
        body = (body or {}).get(name)
    return body or {}


def parts(body: Any, *path: str) -> list[Part]:
    *above, name = path
    return part(body, *above).get(name) or []


def host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def flag(value: bool) -> str:
    return "true" if value else "false"


def object_labels(obj: KubeObject, what: str) -> TargetLabels:
    """Its name, labels and annotations."""
    labels = {f"{META}{what}_name": obj.name}
    for kind, texts in (("label", obj.labels), ("annotation", obj.annotations)):
        for name, value in texts.items():
            labels[f"{META}{what}_{kind}_{label_name(name)}"] = value
            labels[f"{META}{what}_{kind}present_{label_name(name)}"] = PRESENT
    return labels


def pod_labels(pod: KubeObject) -> TargetLabels:
    status = part(pod.body, "status")
    labels = {
        **object_labels(pod, "pod"),
        META + "pod_ip": status.get("podIP") or "",
        META + "pod_ready": _ready(status),
        META + "pod_phase": status.get("phase") or "",
        META + "pod_node_name": part(pod.body, "spec").get("nodeName") or "",
        META + "pod_host_ip": status.get("hostIP") or "",
        META + "pod_uid": pod.uid,
    }
    controller = next((owner for owner in pod.owners if owner.controller), None)
    if controller is not None:
        labels[META + "pod_controller_kind"] = controller.kind
        labels[META + "pod_controller_name"] = controller.name
    return labels


def container_labels(container: Part) -> TargetLabels:
    return {
        META + "pod_container_name": container.get("name") or "",
        META + "pod_container_image": container.get("image") or "",
    }


def container_port_labels(port: Part) -> TargetLabels:
    return {
        META + "pod_container_port_name": port.get("name") or "",
        META + "pod_container_port_number": str(port.get("containerPort") or 0),
        META + "pod_container_port_protocol": port.get("protocol") or "",
    }


def container_ports(pod: KubeObject) -> Iterator[tuple[Part, Part]]:
    """Every container with each of its ports."""
    for container in parts(pod.body, "spec", "containers"):
        for port in container.get("ports") or ():
            yield container, port


def service_labels(service: KubeObject) -> TargetLabels:
    return {NAMESPACE: service.namespace, **object_labels(service, "service")}


def _ready(status: Part) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return str(condition.get("status") or "").lower()
    return "unknown"
