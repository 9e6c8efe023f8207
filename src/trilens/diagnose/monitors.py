"""ServiceMonitors and PodMonitors, and whether the operator's Prometheus takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.selectors import label_change, lacking, requirements
from trilens.model.verdict import Fact
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject


def wants_exporter(monitor: KubeObject) -> bool:
    selector = section(monitor.body, "spec", "selector")
    return any("dcgm-exporter" in value for one in requirements(selector) for value in one.values)


def example_label(servers: Sequence[KubeObject]) -> str:
    for server in servers:
        for one in requirements(section(server.body, "spec", "serviceMonitorSelector")):
            if one.operator == "In" and one.values:
                return f"{one.key}: {one.values[0]}"
    return "any labels"


class Selection(NamedTuple):
    """How far a monitor comes on its way to be scraped."""

    value: str  # label, namespace, service, port: where it is stopped; or selected
    told: dict[str, str]
    facts: tuple[Fact, ...]


# One that comes further lacks less.
_FURTHEST: Final = ("selected", "port", "service", "namespace", "label")


def selection(case: Case, monitor: KubeObject, servers: Sequence[KubeObject]) -> Selection:
    """By the Prometheus that comes nearest to taking it: one that does is enough."""
    found = [_by_server(case, monitor, server) for server in servers]
    return nearest(found)


def nearest(found: Sequence[Selection]) -> Selection:
    return min(found, key=lambda one: _FURTHEST.index(one.value))


def _by_server(case: Case, monitor: KubeObject, server: KubeObject) -> Selection:
    kind = "serviceMonitor" if monitor.kind == "ServiceMonitor" else "podMonitor"
    where, by = f"{monitor.kind} {monitor.namespace}/{monitor.name}", f"{server.namespace}/{server.name}"
    told = {"monitor": where, "prometheus": by}
    source = f"Prometheus {by}"
    spec = section(server.body, "spec")
    if f"{kind}Selector" not in spec:
        told["change"] = f"Set {kind}Selector: {{}} in Prometheus {by}"
        return Selection("label", told, (Fact(f"it has no {kind}Selector: it takes none", source),))
    if lacks := lacking(requirements(section(spec, f"{kind}Selector")), monitor.labels):
        named = f"{monitor.kind.lower()} -n {monitor.namespace} {monitor.name}"
        told["change"] = f"kubectl label {named} {label_change(lacks)} --overwrite"
        have = ", ".join(f"{key}={value}" for key, value in sorted(monitor.labels.items())) or "no labels"
        wants = Fact(f"{kind}Selector wants {', '.join(map(str, lacks))}", source)
        return Selection("label", told, (wants, Fact(f"it has {have}", where)))
    namespaces = f"{kind}NamespaceSelector"
    if namespaces not in spec:  # its own alone; {} would be all
        if monitor.namespace == server.namespace:
            return _service(case, monitor, told)
        told["change"] = f"Set {namespaces}: {{}} in Prometheus {by}"
        return Selection("namespace", told, (Fact(f"it looks in {server.namespace} alone", source),))
    namespace = next((one for one in case.of_kind("", "Namespace") if one.name == monitor.namespace), None)
    if namespace is not None and (
        lacks := lacking(requirements(section(spec, namespaces)), namespace.labels)
    ):
        told["change"] = f"kubectl label namespace {monitor.namespace} {label_change(lacks)} --overwrite"
        fact = Fact(f"it wants namespaces with {', '.join(map(str, lacks))}", source)
        return Selection("namespace", told, (fact,))
    return _service(case, monitor, told)


def _service(case: Case, monitor: KubeObject, told: dict[str, str]) -> Selection:
    """Whether the monitor finds a Service with its port."""
    spec, where = section(monitor.body, "spec"), told["monitor"]
    is_told = case.of_kind("", "Service") or case.knows_all("", "Service")
    if monitor.kind != "ServiceMonitor" or not is_told:
        return Selection("selected", told, (Fact(f"{told['prometheus']} takes it", where),))
    wanted = requirements(section(spec, "selector"))
    matching = [
        one
        for one in case.of_kind("", "Service")
        if looks_in(monitor, one.namespace) and not lacking(wanted, one.labels)
    ]
    if not matching:
        asked = ", ".join(map(str, wanted))
        told["change"] = (
            f"Give the Service of dcgm-exporter the labels {asked}, or correct spec.selector of the monitor."
        )
        return Selection("service", told, (Fact(f"no Service has {asked}", where),))
    ports = {text(port, "name") for one in matching for port in items(section(one.body, "spec"), "ports")}
    asked_ports = {text(one, "port") for one in items(spec, "endpoints")} - {""}
    if asked_ports and not asked_ports & ports:
        listed = ", ".join(sorted(ports - {""})) or "a port without a name"
        told["change"] = f"Set spec.endpoints[].port of the monitor to {listed}"
        said = f"it names the port {', '.join(sorted(asked_ports))}; the Service has {listed}"
        return Selection("port", told, (Fact(said, where),))
    fact = Fact(f"{told['prometheus']} takes it, and it finds its Service", where)
    return Selection("selected", told, (fact,))


def looks_in(monitor: KubeObject, namespace: str) -> bool:
    chosen = section(monitor.body, "spec", "namespaceSelector")
    if chosen.get("any") is True:
        return True
    listed = chosen.get("matchNames")
    return namespace in (listed if isinstance(listed, list) and listed else [monitor.namespace])
