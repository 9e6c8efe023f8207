"""The same day's cost by namespace as OpenCost has it: requested GPUs x price, by PromQL over Prometheus.

That is what can be had elsewhere: GPUs that pods asked for, at the price of their node, a sample a minute. It
knows neither what the GPUs did, nor free ones, nor a price that changed, and adds up to no bill.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import numpy as np

from bench.ledger_fleet import DAY_MS, GPUS_PER_NODE, HOUR_MS, MINUTE_MS, Fleet, kind_of, node
from bench.load import bodies, encode_labels, send
from bench.peers import Prometheus
from trilens.model.labels import METRIC_NAME, Labels, make_labels

if TYPE_CHECKING:
    from pathlib import Path

_REQUESTED: Final = 'kube_pod_container_resource_requests{resource="nvidia_com_gpu"}'
_PRICE: Final = "node_gpu_hourly_cost"
# avg_over_time, as OpenCost asks for it, times the minutes that a pod was there.
_COST: Final = (
    f"sum by (namespace) (sum_over_time({_REQUESTED}[1d]) / 60 "
    f"* on (node) group_left () avg by (node) (avg_over_time({_PRICE}[1d])))"
)
_PER_GPU: Final = {"p5.48xlarge": 6.88, "p4d.24xlarge": 1.015, "rack-8": 2.5}


class PeerResult(NamedTuple):
    samples: int
    first_s: float
    then_s: float
    namespaces: int


class _Series(NamedTuple):
    labels: Labels
    value: float
    from_ms: int
    to_ms: int


def run(out: Path, *, gpus: int, day_ms: int, repeats: int) -> PeerResult:
    prometheus = Prometheus(out / "ledger-prometheus")
    prometheus.start()
    try:
        samples = _load(prometheus, [*_series(Fleet(gpus, day_ms))], day_ms)
        first_s, namespaces = _asked(prometheus, day_ms)
        then_s = median(_asked(prometheus, day_ms)[0] for _ in range(repeats))
    finally:
        prometheus.stop()
    return PeerResult(samples, first_s, then_s, namespaces)


def _series(fleet: Fleet) -> list[_Series]:
    end_ms = fleet.day_ms + DAY_MS
    found = []
    for gpu in range(0, fleet.gpus, GPUS_PER_NODE):
        price = _PER_GPU.get(kind_of(gpu).instance_type, 0.0)
        labels = make_labels({METRIC_NAME: _PRICE, "node": node(gpu), "instance": node(gpu)})
        found.append(_Series(labels, price, fleet.day_ms, end_ms))
    for job in fleet.jobs:
        for pod, gpus in job.pods():
            about = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid, "container": "main"}
            labels = make_labels(
                {
                    METRIC_NAME: "kube_pod_container_resource_requests",
                    "resource": "nvidia_com_gpu",
                    "node": node(gpus[0]),
                    **about,
                }
            )
            requested = float(len(gpus) * job.share)
            found.append(_Series(labels, requested, job.from_ms, job.to_ms or end_ms))
    return found


def _load(peer: Prometheus, series: list[_Series], day_ms: int) -> int:
    """Hour by hour, as it takes no older ones."""
    encoded = [encode_labels(one.labels) for one in series]
    values = np.array([one.value for one in series])
    samples = 0
    with httpx.Client() as client:
        for hour_ms in range(day_ms, day_ms + DAY_MS, HOUR_MS):
            t_ms = np.arange(hour_ms, hour_ms + HOUR_MS, MINUTE_MS)
            there = [i for i, one in enumerate(series) if one.from_ms <= hour_ms and one.to_ms > hour_ms]
            samples += len(there) * len(t_ms)
            told = np.repeat(values[there][:, None], len(t_ms), axis=1)
            for body in bodies([encoded[i] for i in there], t_ms, told, series_per_body=2_000):
                send(client, peer.url + peer.write_path, body)
    return samples


def _asked(peer: Prometheus, day_ms: int) -> tuple[float, int]:
    began = time.perf_counter()
    asked = {"query": _COST, "time": str((day_ms + DAY_MS - 1) / 1000)}
    answer = httpx.get(f"{peer.url}/api/v1/query", params=asked, timeout=300)
    took_s = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    return took_s, len(answer.json()["data"]["result"])
