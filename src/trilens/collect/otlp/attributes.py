"""Attributes of a resource, a data point or a span as text, and what a resource says of where it runs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from trilens.collect.otlp.names import label_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

Attributes: TypeAlias = "dict[str, Any]"

# So that series join with workloads as scraped ones do.
_PLACE: Final = {
    "k8s.cluster.name": "cluster",
    "k8s.namespace.name": "namespace",
    "k8s.pod.name": "pod",
    "k8s.container.name": "container",
    "k8s.node.name": "node",
}
_IDENTITY: Final = ("service.name", "service.namespace", "service.instance.id")


def read_attributes(pairs: Iterable[KeyValue]) -> Attributes:
    return {pair.key: plain(pair.value) for pair in pairs}


def plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return read_attributes(value.kvlist_value.values)
    return getattr(value, kind)


def written(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, dict)):
        return orjson.dumps(value, default=written).decode()
    return str(value)


def resource_labels(resource: Attributes) -> dict[str, str]:
    """What every series of a resource carries: job and instance, as Prometheus makes them, and its place."""
    name, space = written(resource.get("service.name")), written(resource.get("service.namespace"))
    labels = {
        "job": f"{space}/{name}" if space and name else name,
        "instance": written(resource.get("service.instance.id")),
    }
    for attribute, label in _PLACE.items():
        labels[label] = written(resource.get(attribute))
    return {label: value for label, value in labels.items() if value}


def info_labels(resource: Attributes) -> dict[str, str]:
    """The rest of a resource, for target_info. Empty when there is no rest, or nobody it could be of."""
    own = resource_labels(resource)
    if "job" not in own and "instance" not in own:
        return {}
    rest = {
        label_name(key): written(value)
        for key, value in resource.items()
        if key not in _IDENTITY and value != ""
    }
    rest.pop("", None)
    return {**rest, **own} if rest else {}


def point_labels(attributes: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """A point's own attribute that clashes with its resource's is kept as exported_..., as a scrape does.
    Attributes that become one label are joined, in the order of their names."""
    labels = dict(own)
    for key in sorted(attributes):
        name = label_name(key)
        if name in own:
            name = f"exported_{name}"
        text = written(attributes[key])
        if name and text:
            labels[name] = f"{labels[name]};{text}" if name in labels else text
    return labels
