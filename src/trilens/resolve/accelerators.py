"""What pods ask for and nodes have of accelerators, in any of the ways that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.resolve.reading import items, section, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from trilens.model.kubernetes import KubeObject

_RESOURCES = ("amd.com/gpu", "habana.ai/gaudi", "google.com/tpu")
# nvidia.com/gpu, /gpu.shared, /gpucores, /gpumem, /mig-1g.10gb; gpu.intel.com/i915; aws.amazon.com/neuroncore
_RESOURCE_PREFIXES = ("nvidia.com/", "gpu.intel.com/", "aws.amazon.com/neuron")
# KAI and Run:ai share a GPU without a resource in the pod's limits.
_ANNOTATIONS = ("gpu-fraction", "gpu-memory")

_GPU: Final = "nvidia.com/gpu"
_SHARED: Final = ".shared"  # what time-sliced devices are called where they are renamed
_MIG: Final = "nvidia.com/mig-"


class GpuCapacity(NamedTuple):
    """How many GPUs a node should have: whole devices, or units, where an instance of a device is one."""

    expected: int
    counts_instances: bool


def wants_accelerator(pod: KubeObject) -> bool:
    """True also for a claim of dynamic resource allocation: whose device it is stands elsewhere."""
    spec = section(pod.body, "spec")
    if any(key in pod.annotations for key in _ANNOTATIONS) or any(items(spec, "resourceClaims")):
        return True
    return template_wants_accelerator(spec)


def template_wants_accelerator(spec: Mapping[str, Any]) -> bool:
    """The same for the pod spec inside a template."""
    for kind in ("containers", "initContainers"):
        for container in items(spec, kind):
            for amount in ("limits", "requests"):
                for name, quantity in section(container, "resources", amount).items():
                    if is_accelerator(name) and str(quantity) != "0":
                        return True
    return False


def is_accelerator(resource: str) -> bool:
    return resource in _RESOURCES or resource.startswith(_RESOURCE_PREFIXES)


def gpu_capacity(node: KubeObject) -> GpuCapacity | None:
    """What the device plugin offers and feature discovery counted; None where a node is said to have none.

    Time-slicing multiplies what is offered. With the MIG strategy "single" instances go by the name of whole
    devices, in the count as well; with "mixed" each profile has its own resource.
    """
    offered = section(node.body, "status", "capacity")
    whole_ones = _physical(node, offered, _GPU)
    instances = sum(
        _physical(node, offered, name.removesuffix(_SHARED)) for name in offered if name.startswith(_MIG)
    )
    counted = whole(text(node.labels, f"{_GPU}.count")) or 0
    if node.labels.get("nvidia.com/mig.strategy") == "single" and "MIG" in text(
        node.labels, f"{_GPU}.product"
    ):
        found = GpuCapacity(max(whole_ones, counted), counts_instances=True)
    elif counted or not instances:
        found = GpuCapacity(max(whole_ones, counted), counts_instances=False)
    else:
        found = GpuCapacity(whole_ones + instances, counts_instances=True)
    return found if found.expected else None


def _physical(node: KubeObject, offered: Mapping[str, Any], resource: str) -> int:
    """A resource without its replicas."""
    count = (whole(offered.get(resource)) or 0) + (whole(offered.get(f"{resource}{_SHARED}")) or 0)
    return count // max(whole(text(node.labels, f"{resource}.replicas")) or 1, 1)
