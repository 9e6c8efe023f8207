"""What /api/events and /api/output answer, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

import msgspec


class WorkloadName(msgspec.Struct, frozen=True):
    cluster: str
    namespace: str
    group: str
    kind: str
    name: str
    uid: str


class VictimAnswer(msgspec.Struct, frozen=True):
    """A pod, or a process that is in none, and the workload it was in at that time; null is unknown."""

    cluster: str | None
    namespace: str | None
    pod: str | None
    uid: str | None
    workload: WorkloadName | None
    attempt: int | None


class EventAnswer(msgspec.Struct, frozen=True):
    """A fault that the kernel of a machine reported, or a warning of Kubernetes. Null is unknown."""

    t_ms: int
    cluster: str | None
    node: str
    kind: str
    code: int | None
    title: str | None
    asks: str | None
    text: str
    uuid: str | None
    gpu: int | None
    pci: str | None
    pid: int | None
    process: str | None
    rank: int | None
    victims: list[VictimAnswer]


class RunOutput(msgspec.Struct, frozen=True):
    """The last lines of one run of a container; runs are counted from 0."""

    run: int
    lines: list[str]


class ContainerOutput(msgspec.Struct, frozen=True):
    """Newest run first."""

    container: str
    runs: list[RunOutput]
    termination_messages: list[str]


class PodOutputAnswer(msgspec.Struct, frozen=True):
    cluster: str
    namespace: str
    pod: str
    uid: str
    node: str
    containers: list[ContainerOutput]
