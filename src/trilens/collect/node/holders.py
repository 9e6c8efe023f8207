"""Who holds which GPU, by the kubelet's list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.collect.node.nvml import GpuIdentity, MigPart
    from trilens.collect.node.pod_resources import Device

# MIG-GPU-.../1/0 was what drivers before 470 called an instance.
_UUID: Final = re.compile(
    r"(?P<uuid>(?:GPU|MIG)-[0-9a-fA-F-]{36}|MIG-GPU-[0-9a-fA-F-]{36}/\d+/\d+)(?:::(?P<replica>\d+))?"
)
_MIG: Final = "MIG-"
_NAMED: Final = re.compile(r"nvidia(?P<minor>\d+)(?:/vgpu(?P<replica>\d+))?")


class Holding(NamedTuple):
    """A container has a GPU, a MIG device, or with others a share of one."""

    uuid: str
    replica: str  # which share, where it is time-sliced
    device: Device
    mig: MigPart | None = None  # of which GPU a MIG device is which instance, where the driver told

    def is_of(self, gpu: GpuIdentity, instance: int | None) -> bool:
        """Whether it is that GPU or a part of it; that very instance, where one is meant."""
        if self.mig is None:
            return self.uuid == gpu.uuid
        return self.mig.gpu.uuid == gpu.uuid and instance in (None, self.mig.part.gpu_instance)


def names_mig(devices: Iterable[Device]) -> bool:
    return any(device.device_id.startswith(_MIG) for device in devices)


def holdings(
    devices: Iterable[Device], gpus: Sequence[GpuIdentity], mig: Mapping[str, MigPart]
) -> list[Holding]:
    """Device plugins name GPUs by UUID, by /dev/nvidiaN or by number; other devices are left out."""
    found = []
    for device in devices:
        if named := _UUID.fullmatch(device.device_id):
            uuid = named["uuid"]
            found.append(Holding(uuid, named["replica"] or "", device, mig.get(uuid)))
            continue
        if named := _NAMED.fullmatch(device.device_id):
            matching = [gpu.uuid for gpu in gpus if gpu.minor == int(named["minor"])]
            found += [Holding(uuid, named["replica"] or "", device) for uuid in matching]
        elif device.resource == "nvidia.com/gpu" and device.device_id.isdigit():
            matching = [gpu.uuid for gpu in gpus if gpu.number == int(device.device_id)]
            found += [Holding(uuid, "", device) for uuid in matching]
    return found


def labels_by_uuid(held: Iterable[Holding]) -> dict[str, dict[str, str]]:
    """Of GPUs with one holder. A shared one has none: its readings are nobody's alone."""
    by_uuid: dict[str, set[tuple[str, str, str]]] = {}
    for holding in held:
        owner = (holding.device.container, holding.device.namespace, holding.device.pod)
        by_uuid.setdefault(holding.uuid, set()).add(owner)
    names = ("container", "namespace", "pod")
    return {
        uuid: dict(zip(names, next(iter(owners)), strict=True))
        for uuid, owners in by_uuid.items()
        if len(owners) == 1
    }
