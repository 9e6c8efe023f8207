"""A machine as it was bought: what it is, where it stands, how it is paid, and whether it can be used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class MachineState(StrEnum):
    READY = "ready"
    NOT_READY = "not-ready"
    CORDONED = "cordoned"  # takes no new pods; those that are there go on


@dataclass(frozen=True, slots=True)
class Machine:
    """What nobody told is empty, or None where it is a number."""

    cluster: str
    node: str
    instance_type: str = ""  # p5.48xlarge
    region: str = ""
    zone: str = ""
    purchase: str = ""  # on-demand, spot, reserved, owned; "" where no label tells
    provider: str = ""  # aws, gcp, azure, ... from the provider id
    gpu_model: str = ""
    gpus: int | None = None  # that it has, broken ones included
    cpus: float | None = None
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    state: MachineState = MachineState.READY
    reason: str = ""  # of a state that is not ready, in one word: KubeletStopped


class MachineInterval(NamedTuple):
    """(cluster, node, from_ms) names it: told again, it replaces what was told."""

    machine: Machine
    from_ms: int
    to_ms: int | None  # None while it lasts
