"""Who holds which GPU, by the kubelet's list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.collect.node.nvml import GpuIdentity
    from trilens.collect.node.pod_resources import Device

_UUID: Final = re.compile(r"(?P<uuid>(?:GPU|MIG)-[0-9a-fA-F-]{36})(?:::(?P<replica>\d+))?")
_NAMED: Final = re.compile(r"nvidia(?P<minor>\d+)(?:/vgpu(?P<replica>\d+))?")


class Holding(NamedTuple):
    """A container has a GPU, a MIG device, or with others a share of one."""

    uuid: str
    replica: str  # which share, where it is time-sliced
    device: Device


def holdings(devices: Iterable[Device], gpus: Sequence[GpuIdentity]) -> list[Holding]:
    """Device plugins name GPUs by UUID, by /dev/nvidiaN or by number; other devices are left out."""
    found = []
    for device in devices:
        if named := _UUID.fullmatch(device.device_id):
            found.append(Holding(named["uuid"], named["replica"] or "", device))
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
