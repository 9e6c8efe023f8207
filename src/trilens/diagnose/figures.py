"""Which series belong to a case: what evidence asks of the metrics, in the vocabulary of the rule pack.

In a query `$gpus`, `$nodes`, `$pods`, `$runs` stand for regular expressions of what the case is about, and
`$namespace`, `$cluster`, `$workload` for its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class CaseFigure(NamedTuple):
    name: str
    query: str


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
    CaseFigure("node-cpu", 'trilens:node_cpu:ratio{node=~"$nodes"}'),
    CaseFigure(
        "node-memory", 'trilens:node_memory_used:bytes{node=~"$nodes"} / trilens:node_memory_total:bytes'
    ),
    CaseFigure("node-disk-busy", 'trilens:node_disk_busy:ratio{node=~"$nodes"}'),
    CaseFigure("network-faults", 'trilens:node_network_faults:per_second{node=~"$nodes"}'),
    CaseFigure("infiniband-faults", 'trilens:node_infiniband_faults:per_second{node=~"$nodes"}'),
    CaseFigure(
        "checkpoint-duration", 'training_checkpoint_duration_seconds{namespace="$namespace", pod=~"$pods"}'
    ),
    # Of servers, as docs/serving.md has them.
    CaseFigure(
        "inference-queue", 'trilens:inference_queue:count{namespace="$namespace", workload="$workload"}'
    ),
    CaseFigure(
        "inference-running", 'trilens:inference_running:count{namespace="$namespace", workload="$workload"}'
    ),
    CaseFigure(
        "inference-cache",
        'trilens:inference_kv_cache_used:ratio{namespace="$namespace", workload="$workload"}',
    ),
    CaseFigure(
        "inference-preemptions",
        'trilens:inference_preemptions:per_second{namespace="$namespace", workload="$workload"}',
    ),
    CaseFigure(
        "inference-requests",
        'trilens:inference_requests:per_second{namespace="$namespace", workload="$workload"}',
    ),
    CaseFigure(
        "inference-first-token",
        "trilens:inference_time_to_first_token:seconds"
        '{namespace="$namespace", workload="$workload", quantile="0.95"}',
    ),
    CaseFigure(
        "inference-next-token",
        "trilens:inference_time_per_token:seconds"
        '{namespace="$namespace", workload="$workload", quantile="0.95"}',
    ),
    CaseFigure(
        "inference-duration",
        "trilens:inference_request_duration:seconds"
        '{namespace="$namespace", workload="$workload", quantile="0.95"}',
    ),
    CaseFigure(
        "inference-duration-mean",
        'trilens:inference_request_duration_mean:seconds{namespace="$namespace", workload="$workload"}',
    ),
)
