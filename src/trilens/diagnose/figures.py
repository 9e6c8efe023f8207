"""Which series belong to a case: what evidence asks of the metrics, in the vocabulary of the rule pack.

In a query `$gpus`, `$nodes`, `$pods`, `$runs` stand for regular expressions of what the case is about, and
`$namespace`, `$workload` for its own. `$cluster` takes its cluster, and series that name none: nodes, pods
and workloads are called alike in many clusters, GPUs by their UUIDs are not.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class CaseFigure(NamedTuple):
    name: str
    query: str


_NODES: Final = '{cluster=~"$cluster", node=~"$nodes"}'
_PODS: Final = '{cluster=~"$cluster", namespace="$namespace", pod=~"$pods"}'
_WORKLOAD: Final = 'cluster=~"$cluster", namespace="$namespace", workload="$workload"'
_SERVER: Final = f"{{{_WORKLOAD}}}"
_SLOWEST: Final = f'{{{_WORKLOAD}, quantile="0.95"}}'
FIGURES: Final = (
    # As it was scraped, with all its labels: whether they name a pod, and which.
    CaseFigure("gpu-reported", 'DCGM_FI_DEV_GPU_UTIL{UUID=~"$gpus"}'),
    CaseFigure("gpu-utilization", 'trilens:gpu_utilization:ratio{UUID=~"$gpus"}'),
    CaseFigure("gpu-power", 'trilens:gpu_power:watts{UUID=~"$gpus"}'),
    CaseFigure("gpu-temperature", 'trilens:gpu_temperature:celsius{UUID=~"$gpus"}'),
    # Why clocks are held down, by reason; and how far.
    CaseFigure("gpu-throttled", 'trilens:gpu_throttled:bool{UUID=~"$gpus"}'),
    CaseFigure("sm-clock", 'trilens:sm_clock:hertz{UUID=~"$gpus"}'),
    CaseFigure("nvlink-errors", 'trilens:nvlink_errors:total{UUID=~"$gpus"}'),
    CaseFigure("node-cpu", f"trilens:node_cpu:ratio{_NODES}"),
    CaseFigure("node-memory", f"trilens:node_memory_used:bytes{_NODES} / trilens:node_memory_total:bytes"),
    CaseFigure("node-disk-busy", f"trilens:node_disk_busy:ratio{_NODES}"),
    CaseFigure("network-faults", f"trilens:node_network_faults:per_second{_NODES}"),
    CaseFigure("infiniband-faults", f"trilens:node_infiniband_faults:per_second{_NODES}"),
    CaseFigure("checkpoint-duration", f"training_checkpoint_duration_seconds{_PODS}"),
    # Of servers, as docs/serving.md has them.
    CaseFigure("inference-queue", f"trilens:inference_queue:count{_SERVER}"),
    CaseFigure("inference-running", f"trilens:inference_running:count{_SERVER}"),
    CaseFigure("inference-cache", f"trilens:inference_kv_cache_used:ratio{_SERVER}"),
    CaseFigure("inference-preemptions", f"trilens:inference_preemptions:per_second{_SERVER}"),
    CaseFigure("inference-requests", f"trilens:inference_requests:per_second{_SERVER}"),
    CaseFigure("inference-first-token", f"trilens:inference_time_to_first_token:seconds{_SLOWEST}"),
    CaseFigure("inference-next-token", f"trilens:inference_time_per_token:seconds{_SLOWEST}"),
    CaseFigure("inference-duration", f"trilens:inference_request_duration:seconds{_SLOWEST}"),
    CaseFigure("inference-duration-mean", f"trilens:inference_request_duration_mean:seconds{_SERVER}"),
)
