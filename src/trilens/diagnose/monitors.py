"""ServiceMonitors and PodMonitors, and whether the operator's Prometheus takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.diagnose.selectors import lacking, requirements
from trilens.model.verdict import Fact
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from trilens.diagnose.case import Case
    from trilens.diagnose.selectors import Requirement
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


def selection(
    case: Case, monitor: KubeObject, servers: Sequence[KubeObject]
) -> tuple[str, dict[str, str], tuple[Fact, ...]]:
    kind = "serviceMonitor" if monitor.kind == "ServiceMonitor" else "podMonitor"
    where = f"{monitor.kind} {monitor.namespace}/{monitor.name}"
    told = {"monitor": where, "change": "", "prometheus": ""}
    best: tuple[str, dict[str, str], tuple[Fact, ...]] | None = None
    for server in servers:
        spec = section(server.body, "spec")
        told_here = {**told, "prometheus": f"{server.namespace}/{server.name}"}
        lacks = lacking(requirements(section(spec, f"{kind}Selector")), monitor.labels)
        if f"{kind}Selector" not in spec:
            fact = Fact(f"it has no {kind}Selector: it takes none", f"Prometheus {told_here['prometheus']}")
            told_here["change"] = f"set {kind}Selector: {{}} in Prometheus {told_here['prometheus']}"
            best = best or ("label", told_here, (fact,))
            continue
        if lacks:
            told_here["change"] = _label_change(monitor, lacks)
            asked = ", ".join(map(str, lacks))
            have = ", ".join(f"{key}={value}" for key, value in sorted(monitor.labels.items())) or "no labels"
            facts = (
                Fact(f"{kind}Selector wants {asked}", f"Prometheus {told_here['prometheus']}"),
                Fact(f"it has {have}", where),
            )
            best = best or ("label", told_here, facts)
            continue
        if (
            closed := _closed_namespace(case, monitor, server, spec.get(f"{kind}NamespaceSelector"))
        ) is not None:
            told_here["change"], fact = closed
            best = ("namespace", told_here, (fact,)) if best is None or best[0] == "label" else best
            continue
        return _service(case, monitor, told_here)
    assert best is not None
    return best


def _label_change(monitor: KubeObject, lacks: Sequence[Requirement]) -> str:
    """The command that makes it so; where no value is named, what has to hold."""
    kind = monitor.kind.lower()
    wanted = [f"{one.key}={one.values[0]}" for one in lacks if one.operator == "In" and one.values]
    wanted += [f"{one.key}=true" for one in lacks if one.operator == "Exists"]
    unwanted = [f"{one.key}-" for one in lacks if one.operator in ("NotIn", "DoesNotExist")]
    listed = " ".join((*wanted, *unwanted))
    return f"kubectl label {kind} -n {monitor.namespace} {monitor.name} {listed} --overwrite"


def _closed_namespace(
    case: Case, monitor: KubeObject, server: KubeObject, selector: Mapping[str, Any] | None
) -> tuple[str, Fact] | None:
    """None selects the namespace of the Prometheus alone; {} selects all."""
    if selector is None:
        if monitor.namespace == server.namespace:
            return None
        fact = Fact(f"it looks in {server.namespace} alone", f"Prometheus {server.namespace}/{server.name}")
        return (
            f"set serviceMonitorNamespaceSelector: {{}} in Prometheus {server.namespace}/{server.name}",
            fact,
        )
    namespace = next((one for one in case.of_kind("", "Namespace") if one.name == monitor.namespace), None)
    lacks = lacking(requirements(selector), namespace.labels if namespace is not None else {})
    if not lacks or namespace is None:
        return None
    fact = Fact(f"it wants namespaces with {', '.join(map(str, lacks))}", f"Prometheus {server.name}")
    listed = " ".join(f"{one.key}={one.values[0] if one.values else 'true'}" for one in lacks)
    return f"kubectl label namespace {monitor.namespace} {listed}", fact


def _service(
    case: Case, monitor: KubeObject, told: dict[str, str]
) -> tuple[str, dict[str, str], tuple[Fact, ...]]:
    """Whether the monitor finds a Service with its port."""
    spec = section(monitor.body, "spec")
    services = [one for one in case.of_kind("", "Service") if one.namespace in _places(monitor)]
    if monitor.kind != "ServiceMonitor" or not case.of_kind("", "Service"):
        return "selected", told, (Fact(f"{told['prometheus']} takes it", told["monitor"]),)
    wanted = requirements(section(spec, "selector"))
    matching = [one for one in services if not lacking(wanted, one.labels)]
    if not matching:
        asked = ", ".join(map(str, wanted))
        told["change"] = (
            f"give the Service of dcgm-exporter the labels {asked}, or correct spec.selector of the monitor"
        )
        return "service", told, (Fact(f"no Service has {asked}", told["monitor"]),)
    ports = {text(port, "name") for one in matching for port in items(section(one.body, "spec"), "ports")}
    asked_ports = {text(one, "port") for one in items(spec, "endpoints")} - {""}
    if asked_ports and not asked_ports & ports:
        listed = ", ".join(sorted(ports - {""})) or "a port without a name"
        told["change"] = f"set endpoints[].port to {listed}"
        fact = Fact(
            f"it names the port {', '.join(sorted(asked_ports))}; the Service has {listed}", told["monitor"]
        )
        return "port", told, (fact,)
    return (
        "selected",
        told,
        (Fact(f"{told['prometheus']} takes it, and it finds its Service", told["monitor"]),),
    )


def _places(monitor: KubeObject) -> frozenset[str] | _Everywhere:
    chosen = section(monitor.body, "spec", "namespaceSelector")
    if chosen.get("any") is True:
        return _Everywhere()
    listed = chosen.get("matchNames")
    return frozenset(listed) if isinstance(listed, list) and listed else frozenset({monitor.namespace})


class _Everywhere(frozenset[str]):
    def __contains__(self, item: object) -> bool:
        return True
