"""What the labels of one series say about a GPU, in all their spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.gpu import ClaimSource, GpuKey
from trilens.model.workload import GpuUuid
from trilens.resolve.reading import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

UTILIZATION: Final = "DCGM_FI_DEV_GPU_UTIL"
MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"  # since the driver was loaded, or the GPU reset
DEVICE_INFO: Final = "trilens_node_device_info"
PROCESS_MEMORY: Final = "trilens_gpu_process_memory_bytes"

METRICS: Final = (UTILIZATION, MEMORY_USED, POWER, ENERGY, DEVICE_INFO, PROCESS_MEMORY)
"""Enough to know every GPU that reports: each exporter has one of the first three at least."""

LABELS: Final = (
    "cluster",
    "UUID",
    "gpu_uuid",
    "GPU_I_ID",
    "GPU_I_PROFILE",
    "gpu",
    "modelName",
    "model_name",
    "Hostname",
    "hostname",
    "node",
    "namespace",
    "exported_namespace",
    "pod",
    "exported_pod",
    "container",
    "exported_container",
    "pod_uid",
    "resource",
    "rank",
    "local_rank",
)

_SOURCES: Final = {DEVICE_INFO: ClaimSource.KUBELET, PROCESS_MEMORY: ClaimSource.PROCESS}
_EXPORTERS: Final = ("dcgm-exporter", "trilens-agent")  # as in rules/gpu.yml
_MIG_UUID: Final = "MIG-"
_MIG_RESOURCE: Final = "nvidia.com/mig-"


class Holder(NamedTuple):
    namespace: str
    pod: str
    container: str
    pod_uid: str
    rank: int | None
    local_rank: int | None


class Report(NamedTuple):
    """`hosts` are what the reporter calls the node, the surest name first."""

    source: ClaimSource
    key: GpuKey
    cluster: str
    hosts: tuple[str, ...]
    number: str  # on its node
    model: str
    profile: str
    holder: Holder | None

    @property
    def is_nameless_instance(self) -> bool:
        """The kubelet calls a MIG instance by a UUID of its own; which instance that is, others tell."""
        return self.key.uuid.startswith(_MIG_UUID)


def read_report(metric: str, labels: Mapping[str, str]) -> Report | None:
    """None for a series that names no GPU."""
    uuid = labels.get("UUID") or labels.get("gpu_uuid") or ""
    if not uuid:
        return None
    hosts = dict.fromkeys(labels[name] for name in ("Hostname", "hostname", "node") if labels.get(name))
    profile = labels.get("GPU_I_PROFILE", "")
    if not profile and labels.get("resource", "").startswith(_MIG_RESOURCE):
        profile = labels["resource"].removeprefix(_MIG_RESOURCE)
    return Report(
        _SOURCES.get(metric, ClaimSource.DCGM),
        GpuKey(GpuUuid(uuid), labels.get("GPU_I_ID", "")),
        labels.get("cluster", ""),
        tuple(hosts),
        labels.get("gpu", ""),
        labels.get("modelName") or labels.get("model_name") or "",
        profile,
        _holder(labels),
    )


def _holder(labels: Mapping[str, str]) -> Holder | None:
    """Where a scrape put its own pod's name on the series, the holder's became exported_pod; of a GPU that
    nobody holds the exporter's own pod is left, which is not its holder."""
    prefix = "exported_" if labels.get("exported_pod") else ""
    namespace, pod = labels.get(f"{prefix}namespace", ""), labels.get(f"{prefix}pod", "")
    if not pod or not namespace or any(name in pod for name in _EXPORTERS):
        return None
    return Holder(
        namespace,
        pod,
        labels.get(f"{prefix}container", ""),
        labels.get("pod_uid", ""),
        whole(labels.get("rank")),
        whole(labels.get("local_rank")),
    )
