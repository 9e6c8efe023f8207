"""What the agent itself found out, as metrics: faults, processes on GPUs, who holds which."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from trilens.collect.node import dcgm_names
from trilens.collect.node.families import Description, Sample
from trilens.model.xid import FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.collect.node.fault_ledger import FaultLedger
    from trilens.collect.node.holders import Holding
    from trilens.collect.node.nvml import GpuIdentity
    from trilens.collect.node.pod_output import PodName
    from trilens.collect.node.surroundings import GpuUse
    from trilens.model.pci import PciAddress

DESCRIPTIONS: Final = {
    **dcgm_names.DESCRIPTIONS,
    "trilens_agent_build_info": Description("gauge", "The running version, as a label."),
    "trilens_agent_gpu_pass_seconds": Description("gauge", "How long the GPUs took to answer this scrape."),
    "trilens_agent_problem": Description(
        "gauge", "Whether a part of the node cannot be read; /healthz says why."
    ),
    "trilens_gpu_xid_total": Description("counter", "Xids in the kernel's log, by code; each counted once."),
    "trilens_gpu_xid_any_total": Description("counter", "Xids in the kernel's log, of any code, from 0 on."),
    "trilens_nvswitch_sxid_total": Description("counter", "SXids of NVLink switches in the kernel's log."),
    "trilens_node_nvlink_complaints_total": Description(
        "counter", "NVLink errors in the log without a code."
    ),
    "trilens_node_fault_lines_unreadable_total": Description("counter", "Xid lines that could not be read."),
    "trilens_node_kernel_log_lost_total": Description(
        "counter", "Records overwritten before they were read."
    ),
    "trilens_node_faults_dropped_total": Description(
        "counter", "Faults that were counted and dropped before a server asked for them."
    ),
    "trilens_node_kernel_log_readable": Description("gauge", "Whether the kernel's log is being read."),
    "trilens_gpu_process_memory_bytes": Description("gauge", "GPU memory of a process."),
    "trilens_node_device_info": Description("gauge", "Which container was given which GPU, by the kubelet."),
}


def fault_samples(
    ledger: FaultLedger, gpus: Sequence[GpuIdentity], node: str, *, readable: bool
) -> Iterator[Sample]:
    by_place = {gpu.pci: gpu for gpu in gpus}
    here = {"Hostname": node}
    yield Sample("trilens_node_kernel_log_readable", here, float(readable))
    yield Sample("trilens_node_kernel_log_lost_total", here, ledger.lost)
    yield Sample("trilens_node_fault_lines_unreadable_total", here, ledger.unreadable)
    yield Sample("trilens_node_faults_dropped_total", here, ledger.dropped)
    # A code has no series before its first Xid, and increase() does not see a series begin: this begins at 0.
    any_code: Counter[PciAddress] = Counter({gpu.pci: 0 for gpu in gpus})
    complaints = 0
    for (kind, pci, code), count in ledger.totals().items():
        place = {"pci_bus_id": str(pci) if pci else ""}
        if kind is FaultKind.NVLINK:
            complaints += count
        elif kind is FaultKind.SXID:
            yield Sample("trilens_nvswitch_sxid_total", {**place, "sxid": str(code), **here}, count)
        elif pci is not None:
            any_code[pci] += count
            labels = {**_gpu_labels(by_place.get(pci)), **place, "xid": str(code), **here}
            yield Sample("trilens_gpu_xid_total", labels, count)
    yield Sample("trilens_node_nvlink_complaints_total", here, complaints)
    for pci, count in any_code.items():
        labels = {**_gpu_labels(by_place.get(pci)), "pci_bus_id": str(pci), **here}
        yield Sample("trilens_gpu_xid_any_total", labels, count)


def process_samples(uses: Sequence[GpuUse], pods: Mapping[str, PodName], node: str) -> Iterator[Sample]:
    for use in uses:
        if use.memory_bytes is None:
            continue
        labels = {**_gpu_labels(use.gpu), "pid": str(use.pid), "Hostname": node}
        if use.gpu_instance is not None:
            labels["GPU_I_ID"] = str(use.gpu_instance)
        if process := use.process:
            pod = pods.get(process.belonging.pod_uid or "")
            labels |= {
                "process": process.name,
                "user": process.user or "",
                "rank": _text(process.rank),
                "local_rank": _text(process.local_rank),
                "namespace": pod.namespace if pod else "",
                "pod": pod.name if pod else "",
            }
        yield Sample("trilens_gpu_process_memory_bytes", labels, use.memory_bytes)


def holding_samples(held: Sequence[Holding], node: str) -> Iterator[Sample]:
    for holding in held:
        mig = holding.mig
        labels = {
            "UUID": mig.gpu.uuid if mig else holding.uuid,
            "GPU_I_ID": str(mig.part.gpu_instance) if mig else "",
            "GPU_I_PROFILE": mig.part.profile if mig else "",
            "mig_uuid": holding.uuid if mig else "",
            "replica": holding.replica,
            "resource": holding.device.resource,
            "namespace": holding.device.namespace,
            "pod": holding.device.pod,
            "container": holding.device.container,
            "Hostname": node,
        }
        yield Sample("trilens_node_device_info", labels, 1)


def _gpu_labels(gpu: GpuIdentity | None) -> dict[str, str]:
    return {"gpu": str(gpu.number), "UUID": gpu.uuid} if gpu else {}


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
