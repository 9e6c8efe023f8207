"""GPUs and bindings as rows of their tables, and back."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.workload import Doubt, PodKey
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from trilens.store.workload_rows import Row

_DOUBTS: Final = msgspec.json.Decoder(tuple[Doubt, ...])

GPUS: Final = Table(
    "gpus",
    ("cluster", "node", "uuid", "instance", "from_ms"),
    ("to_ms", "gpu_index", "model", "profile"),
)
GPU_BINDINGS: Final = Table(
    "gpu_bindings",
    ("cluster", "namespace", "pod", "pod_uid", "container", "uuid", "instance", "from_ms"),
    ("to_ms", "share", "sources", "rank", "local_rank", "doubts"),
)

GPU_TABLES: Final = (GPUS, GPU_BINDINGS)


def gpu_row(interval: GpuInterval) -> Row:
    gpu = interval.gpu
    return {
        "cluster": gpu.cluster,
        "node": gpu.node,
        "uuid": gpu.key.uuid,
        "instance": gpu.key.instance,
        "from_ms": interval.from_ms,
        "to_ms": interval.to_ms,
        "gpu_index": gpu.index,
        "model": gpu.model,
        "profile": gpu.profile,
    }


def gpu_of(row: Row) -> GpuInterval:
    gpu = Gpu(
        GpuKey(row["uuid"], row["instance"]),
        row["cluster"],
        row["node"],
        row["gpu_index"],
        row["model"],
        row["profile"],
    )
    return GpuInterval(gpu, row["from_ms"], row["to_ms"])


def binding_row(interval: BindingInterval) -> Row:
    binding = interval.binding
    return {
        "cluster": binding.pod.cluster,
        "namespace": binding.pod.namespace,
        "pod": binding.pod.name,
        "pod_uid": binding.pod.uid,
        "container": binding.container,
        "uuid": binding.gpu.uuid,
        "instance": binding.gpu.instance,
        "from_ms": interval.from_ms,
        "to_ms": interval.to_ms,
        "share": None if binding.share is None else str(binding.share),
        "sources": ",".join(binding.sources),
        "rank": binding.rank,
        "local_rank": binding.local_rank,
        "doubts": msgspec.json.encode(binding.doubts).decode(),
    }


def binding_of(row: Row) -> BindingInterval:
    binding = GpuBinding(
        GpuKey(row["uuid"], row["instance"]),
        PodKey(row["cluster"], row["namespace"], row["pod"], row["pod_uid"]),
        row["container"],
        None if row["share"] is None else _share(row["share"]),
        _sources(row["sources"]),
        row["rank"],
        row["local_rank"],
        _DOUBTS.decode(row["doubts"]),
    )
    return BindingInterval(binding, row["from_ms"], row["to_ms"])


# Ten thousand bindings have a handful of these.
@lru_cache(1_000)
def _share(text: str) -> Fraction:
    return Fraction(text)


@lru_cache(1_000)
def _sources(text: str) -> tuple[ClaimSource, ...]:
    return tuple(ClaimSource(source) for source in text.split(",") if source)
