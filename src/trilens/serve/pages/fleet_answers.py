"""What /api/fleet answers, as types: one list for each column, so that 10,000 GPUs are one small answer."""

from __future__ import annotations

import msgspec


class FleetNodes(msgspec.Struct, frozen=True):
    """Nodes by cluster and name. `state` is ready, not-ready or cordoned; `gpus` is how many it should have.
    `finding` is a place in `findings`. Null is unknown."""

    cluster: list[str]
    name: list[str]
    model: list[str | None]
    instance_type: list[str | None]
    zone: list[str | None]
    rack: list[str | None]
    gpus: list[int | None]
    state: list[str | None]
    reason: list[str | None]
    finding: list[int | None]


class FleetGpus(msgspec.Struct, frozen=True):
    """GPUs, or MIG instances of them, by node and number. `node`, `model`, `workload` and `finding` are
    places in the lists of that name.

    `state` is reporting, silent (held, and it does not report), lost (its node should have it), or blind (of
    its node no GPU reports at all); lost and blind ones that never reported have no uuid. `health` is
    critical, warning, info, ok or unknown. `utilization` and `memory_used` are shares of the whole.
    `workload` is null where nobody holds it, or several do, which `holders` tells apart.
    """

    node: list[int]
    number: list[str | None]
    uuid: list[str | None]
    instance: list[str | None]
    model: list[int | None]
    state: list[str]
    health: list[str]
    finding: list[int | None]
    utilization: list[float | None]
    temperature_celsius: list[float | None]
    power_watts: list[float | None]
    memory_used: list[float | None]
    workload: list[int | None]
    holders: list[int]


class FleetWorkload(msgspec.Struct, frozen=True):
    """Who holds GPUs, and how it is: `health` is critical, warning, info or ok."""

    cluster: str
    namespace: str
    kind: str
    name: str
    team: str | None
    health: str
    health_text: str | None


class FleetFinding(msgspec.Struct, frozen=True):
    """What is wrong with a node or a GPU; `gpu` is null where it is the node as a whole. What is wrong with a
    job that stands there (`of_job`) is worth a look and no fault of the hardware."""

    id: str
    code: str
    severity: str
    text: str
    action: str
    since_ms: int
    node: str | None
    gpu: str | None
    of_job: bool


class FleetAnswer(msgspec.Struct, frozen=True):
    """The fleet as it was at the last look; `at_ms` is null before the first."""

    at_ms: int | None
    nodes: FleetNodes
    gpus: FleetGpus
    models: list[str]
    workloads: list[FleetWorkload]
    findings: list[FleetFinding]
