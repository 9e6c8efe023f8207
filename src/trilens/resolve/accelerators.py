"""Whether a pod asks for an accelerator, in any of the ways people ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.resolve.reading import items, section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from trilens.model.kubernetes import KubeObject

_RESOURCES = ("amd.com/gpu", "habana.ai/gaudi", "google.com/tpu")
# nvidia.com/gpu, /gpu.shared, /gpucores, /gpumem, /mig-1g.10gb; gpu.intel.com/i915; aws.amazon.com/neuroncore
_RESOURCE_PREFIXES = ("nvidia.com/", "gpu.intel.com/", "aws.amazon.com/neuron")
# KAI and Run:ai share a GPU without a resource in the pod's limits.
_ANNOTATIONS = ("gpu-fraction", "gpu-memory")


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
                    if _is_accelerator(name) and str(quantity) != "0":
                        return True
    return False


def _is_accelerator(resource: str) -> bool:
    return resource in _RESOURCES or resource.startswith(_RESOURCE_PREFIXES)
