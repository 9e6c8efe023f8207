"""The GPUs of a machine and who is on them, as only the machine itself can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.simulate.bank import Load
from trilens.simulate.jobs import PodState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.simulate.bank import GpuBank
    from trilens.simulate.machines import Machine

_FB_MIB: Final = Load._fields.index("fb_mib")


class GpuOnNode(NamedTuple):
    number: int
    uuid: str
    pci_bus_id: str


class Holder(NamedTuple):
    """A container that was given a GPU, a MIG instance or a share of a GPU, and what computes there."""

    gpu: GpuOnNode
    instance: str  # GPU_I_ID; "" without MIG
    device: str  # the UUID of what was given
    replica: int | None  # which share of a time-sliced GPU
    resource: str
    namespace: str
    pod: str
    pod_uid: str
    container: str
    pid: int | None  # None while nothing computes
    rank: int | None
    local_rank: int
    started_ms: int
    memory_bytes: int


def gpus_on(machine: Machine) -> list[GpuOnNode]:
    """One that has fallen off the bus is among them: who looked before remembers it."""
    return [
        GpuOnNode(number, uuid, f"00000000:{machine.pci(number)}:00.0")
        for number, uuid in enumerate(machine.uuids)
    ]


def holders_on(machine: Machine, bank: GpuBank) -> Iterator[Holder]:
    gpus = gpus_on(machine)
    for pod in machine.pods.values():
        for place, on_gpu in zip(pod.places, pod.on_gpus[-len(pod.places) :], strict=True):
            computes = pod.state is PodState.RUNNING and place.gpu not in machine.lost
            yield Holder(
                gpu=gpus[place.gpu],
                instance=place.instance,
                device=machine.device(place),
                replica=place.replica,
                resource=pod.job.gpu_resource,
                namespace=pod.namespace,
                pod=pod.name,
                pod_uid=pod.uid,
                container=pod.container,
                pid=pod.pid(on_gpu.local_rank) if computes else None,
                rank=on_gpu.rank,
                local_rank=on_gpu.local_rank,
                started_ms=pod.started_ms,
                memory_bytes=int(bank.loads[_FB_MIB, place.unit]) << 20,
            )
