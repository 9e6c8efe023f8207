"""The pods that make GPUs usable and seen, one on each node: the device plugin, and dcgm-exporter."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.scheduling.demand import Demand, taints_of
from trilens.diagnose.selectors import label_change, lacking, wanted_nodes
from trilens.resolve.reading import condition, items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject


class Daemon(StrEnum):
    DEVICE_PLUGIN = "device-plugin"
    EXPORTER = "dcgm-exporter"


_NAMES: Final = {
    Daemon.DEVICE_PLUGIN: re.compile(r"device-plugin|kubelet-plugin|hami.*plugin|nvidia-gpu-device"),
    Daemon.EXPORTER: re.compile(
        r"dcgm-exporter|nvidia-dcgm(?!-server)|gpu-metrics-exporter|nvidia.*exporter"
    ),
}
_INSTALLED: Final = {
    Daemon.DEVICE_PLUGIN: "the NVIDIA GPU operator, or its device plugin alone, on the nodes that have GPUs",
    Daemon.EXPORTER: "dcgm-exporter (the NVIDIA GPU operator has it), or run trilens agent on the nodes",
}
_LABELS: Final = ("app", "name", "app.kubernetes.io/name", "app.kubernetes.io/component", "k8s-app")


class DaemonState(StrEnum):
    RUNNING = "running"
    FAILING = "failing"
    MISSING = "missing"
    UNTOLD = "untold"


class OnNode(NamedTuple):
    state: DaemonState
    pod: KubeObject | None = None
    reason: str = ""  # why it fails, or why it is not there
    repair: str = ""  # the change that brings it there; "" where nothing tells


def on_node(case: Case, daemon: Daemon, node: str) -> OnNode:
    """MISSING only where it is known on other nodes, or all DaemonSets are: else nobody listed them."""
    pods = [pod for pod in case.of_kind("", "Pod") if is_daemon(daemon, pod)]
    sets = [one for one in case.of_kind("apps", "DaemonSet") if is_daemon(daemon, one)]
    here = [pod for pod in pods if text(section(pod.body, "spec"), "nodeName") == node]
    for pod in here:
        if _trouble(pod) is None:
            return OnNode(DaemonState.RUNNING, pod)
    if here:
        return OnNode(DaemonState.FAILING, here[0], _trouble(here[0]) or "")
    if not pods and not sets:
        if case.knows_all("apps", "DaemonSet"):
            repair = f"Install {_INSTALLED[daemon]}."
            return OnNode(DaemonState.MISSING, None, "there is none in the cluster", repair)
        return OnNode(DaemonState.UNTOLD)
    found = case.node(node)
    for one in sets:
        if found is not None and (why := _kept_away(one, found)) is not None:
            return OnNode(DaemonState.MISSING, one, *why)
    return OnNode(DaemonState.MISSING, sets[0] if sets else None, "it runs on other nodes")


def is_daemon_name(name: str) -> bool:
    """Whether one of these is known by it, in every cluster alike."""
    return any(pattern.search(name) for pattern in _NAMES.values())


def is_daemon(daemon: Daemon, obj: KubeObject) -> bool:
    labels = [obj.labels[label] for label in _LABELS if label in obj.labels]
    return any(_NAMES[daemon].search(name) for name in (obj.name, *labels))


def _trouble(pod: KubeObject) -> str | None:
    """None where it is well."""
    status = section(pod.body, "status")
    for one in items(status, "containerStatuses"):
        waiting = section(one, "state", "waiting")
        if reason := text(waiting, "reason"):
            return f"{reason} {text(waiting, 'message')}".strip()
        last = section(one, "lastState", "terminated")
        if not one.get("ready") and last:
            why = text(last, "message") or text(last, "reason")
            return f"it ended with exit code {last.get('exitCode')}: {why}"
    if text(status, "phase") != "Running":
        return text(status, "reason") or text(status, "phase") or "it does not run"
    return None if condition(pod, "Ready") is not None or not _says_ready(status) else "it is not ready"


def _says_ready(status: Mapping[str, Any]) -> bool:
    return any(text(one, "type") == "Ready" for one in items(status, "conditions"))


def _kept_away(daemons: KubeObject, node: KubeObject) -> tuple[str, str] | None:
    """Why a DaemonSet has no pod on a node, and what would change that."""
    spec = section(daemons.body, "spec", "template", "spec")
    where = f"DaemonSet {daemons.namespace}/{daemons.name}"
    # One of its terms is enough: charts name several labels that a node with GPUs may have.
    absent = min((lacking(term, node.labels) for term in wanted_nodes(spec)), key=len, default=[])
    if absent:
        wants = ", ".join(map(str, absent))
        return f"{where} wants nodes with {wants}", f"kubectl label node {node.name} {label_change(absent)}"
    demand = Demand({}, _tolerations(spec), ())
    for taint in taints_of(node):
        if not demand.tolerates(taint) and not taint.key.startswith("node.kubernetes.io/"):
            repair = f"Add to spec.template.spec.tolerations of {where}: {taint.toleration}"
            return f"{where} does not tolerate the taint {taint} of {node.name}", repair
    return None


def _tolerations(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    found: Iterable[Mapping[str, Any]] = items(spec, "tolerations")
    return tuple(found)
