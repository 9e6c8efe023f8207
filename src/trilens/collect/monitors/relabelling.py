"""The relabelling that the Prometheus operator writes for monitors: the same steps, in the same order.

So the labels of a series, `job`, `namespace`, `service`, `pod`, `container` and `endpoint`, are those that a
Prometheus of the operator gives it, and dashboards and rules made for one fit the other. One step is ours:
`cluster`, which comes first, so that the monitor's own relabelling has the last word on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.collect.discovery.kubernetes.meta_labels import META, NAMESPACE, label_name
from trilens.collect.monitors.selector import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.collect.cluster_scope import ClusterScope

Step = dict[str, Any]

_POD_PORT_NAME: Final = META + "pod_container_port_name"
_POD_PORT_NUMBER: Final = META + "pod_container_port_number"
_ENDPOINT: Final = META + "endpointslice_"
_TARGET: Final = [_ENDPOINT + "address_target_kind", _ENDPOINT + "address_target_name"]
_OVER: Final[Step] = {
    "action": "drop", "source_labels": [META + "pod_phase"], "regex": "(Failed|Succeeded)",
}  # fmt: skip
_MAY_BE_EMPTY: Final = ("separator", "replacement")  # of all others the operator leaves out what is empty
_CAMEL: Final = {"sourceLabels": "source_labels", "targetLabel": "target_label"}


def service_steps(scope: ClusterScope, spec: Mapping[str, Any], endpoint: Mapping[str, Any]) -> list[Step]:
    """Of an endpoint of a ServiceMonitor."""
    steps = [*_first(scope), *LabelSelector.read(spec.get("selector") or {}).steps("service")]
    steps += _port(endpoint, by_name=_ENDPOINT + "port_name")
    for kind, label in (("Node", "node"), ("Pod", "pod")):
        steps.append(
            {
                "source_labels": _TARGET,
                "separator": ";",
                "regex": f"{kind};(.*)",
                "replacement": "${1}",
                "target_label": label,
            }
        )
    steps += [
        _copy(NAMESPACE, "namespace"),
        _copy(META + "service_name", "service"),
        _copy(META + "pod_name", "pod"),
        _copy(META + "pod_container_name", "container"),
    ]
    if endpoint.get("filterRunning") is not False:
        steps.append(_OVER)
    steps += _labels("service", spec.get("targetLabels"))
    steps += _labels("pod", spec.get("podTargetLabels"))
    steps.append({**_copy(META + "service_name", "job"), "replacement": "${1}"})
    steps += _job_label("service", spec)
    return [*steps, *_endpoint_label(endpoint), *own_steps(endpoint.get("relabelings"))]


def pod_steps(
    scope: ClusterScope, name: str, spec: Mapping[str, Any], endpoint: Mapping[str, Any]
) -> list[Step]:
    """Of an endpoint of a PodMonitor; `name` is what its job is called: namespace/name of the monitor."""
    steps = _first(scope)
    if endpoint.get("filterRunning") is not False:
        steps.append(_OVER)
    steps += LabelSelector.read(spec.get("selector") or {}).steps("pod")
    steps += _port(endpoint, by_name=_POD_PORT_NAME)
    steps += [
        _copy(NAMESPACE, "namespace"),
        _copy(META + "pod_container_name", "container"),
        _copy(META + "pod_name", "pod"),
    ]
    steps += _labels("pod", spec.get("podTargetLabels"))
    steps.append({"target_label": "job", "replacement": name})
    steps += _job_label("pod", spec)
    return [*steps, *_endpoint_label(endpoint), *own_steps(endpoint.get("relabelings"))]


def own_steps(written: Iterable[Mapping[str, Any]] | None) -> list[Step]:
    """Relabelling as a monitor writes it, in Prometheus's spelling."""
    return [
        {_CAMEL.get(key, key): value for key, value in step.items() if value or key in _MAY_BE_EMPTY}
        for step in written or ()
    ]


def _first(scope: ClusterScope) -> list[Step]:
    named = {"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"}
    return [named, scope.label()]


def _copy(source: str, target: str) -> Step:
    return {"source_labels": [source], "target_label": target}


def _copy_if_any(source: str, target: str) -> Step:
    return {**_copy(source, target), "regex": "(.+)", "replacement": "${1}"}


def _port(endpoint: Mapping[str, Any], *, by_name: str) -> list[Step]:
    """By the name that the service, or the container, has for it; else by the container's name or number."""
    port = _port_of(endpoint)
    if not port:
        return []
    if endpoint.get("port"):
        source = by_name
    elif not endpoint.get("portNumber") and isinstance(endpoint.get("targetPort"), str):
        source = _POD_PORT_NAME
    else:
        source = _POD_PORT_NUMBER
    return [{"action": "keep", "source_labels": [source], "regex": port}]


def _port_of(endpoint: Mapping[str, Any]) -> str:
    """The first that is given; `portNumber` is a PodMonitor's."""
    return str(endpoint.get("port") or endpoint.get("portNumber") or endpoint.get("targetPort") or "")


def _labels(what: str, names: Iterable[str] | None) -> list[Step]:
    return [_copy_if_any(f"{META}{what}_label_{label_name(name)}", label_name(name)) for name in names or ()]


def _job_label(what: str, spec: Mapping[str, Any]) -> list[Step]:
    name = spec.get("jobLabel")
    return [_copy_if_any(f"{META}{what}_label_{label_name(name)}", "job")] if name else []


def _endpoint_label(endpoint: Mapping[str, Any]) -> list[Step]:
    port = _port_of(endpoint)
    return [{"target_label": "endpoint", "replacement": port}] if port else []
