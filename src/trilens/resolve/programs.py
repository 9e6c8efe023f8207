"""The endpoints that pods of workloads say they have: by annotation, or by the name of a port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.program import Program
from trilens.resolve.reading import items, section, text, whole
from trilens.resolve.stages import is_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.kubernetes import KubeObject
    from trilens.model.workload import Membership, Workload

_ASKS: Final = "prometheus.io/scrape"
_PORT: Final = "prometheus.io/port"
_PATH: Final = "prometheus.io/path"
_SCHEME: Final = "prometheus.io/scheme"
PORT_NAMES: Final = ("trilens", "metrics")
_LAST_PORT: Final = 65_535


class _Port(NamedTuple):
    number: int
    container: str = ""


def programs_of(workload: Workload, members: Iterable[tuple[KubeObject, Membership]]) -> Iterator[Program]:
    for pod, membership in members:
        for port in _ports(pod):
            yield Program(
                address=_host_port(text(section(pod.body, "status"), "podIP"), port.number),
                pod=membership.pod,
                workload=workload.key,
                attempt=membership.attempt,
                path=pod.annotations.get(_PATH) or "/metrics",
                scheme=pod.annotations.get(_SCHEME) or "http",
                node=text(section(pod.body, "spec"), "nodeName"),
                role=membership.role,
                container=port.container,
                node_rank=membership.node_rank,
                team=workload.team,
                experiment=workload.experiment,
            )


def _ports(pod: KubeObject) -> list[_Port]:
    """None of a pod that is over, has no address yet, or does not want to be scraped."""
    asks = pod.annotations.get(_ASKS, "")
    if is_over(pod) or not text(section(pod.body, "status"), "podIP") or asks == "false":
        return []
    named = [*_named_ports(pod)]
    number = whole(pod.annotations.get(_PORT))
    if asks != "true" or number is None:
        return named
    if not 0 < number <= _LAST_PORT:
        return []
    container = next((port.container for port in named if port.number == number), "")
    return [_Port(number, container)]


def _named_ports(pod: KubeObject) -> Iterator[_Port]:
    for container in items(section(pod.body, "spec"), "containers"):
        for port in items(container, "ports"):
            number = whole(port.get("containerPort"))
            if number and text(port, "name") in PORT_NAMES:
                yield _Port(number, text(container, "name"))


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
