"""The tables of GPUs and of who held them, as SQL: version 3, which is not edited afterwards.

Rows replace each other as those of record_tables do. A share is written as a fraction, "1/7".
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

GPUS: Final = f"""
CREATE TABLE IF NOT EXISTS gpus
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    uuid String,
    instance LowCardinality(String),
    from_ms Int64,
    to_ms Nullable(Int64),
    gpu_index LowCardinality(String),
    model LowCardinality(String),
    profile LowCardinality(String),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, node, uuid, instance, from_ms)
SETTINGS {DURABLE}
"""

GPU_BINDINGS: Final = f"""
CREATE TABLE IF NOT EXISTS gpu_bindings
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    pod String,
    pod_uid String,
    container LowCardinality(String),
    uuid String,
    instance LowCardinality(String),
    from_ms Int64,
    to_ms Nullable(Int64),
    share Nullable(String),
    sources LowCardinality(String),
    rank Nullable(Int64),
    local_rank Nullable(Int64),
    doubts String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, namespace, pod, pod_uid, container, uuid, instance, from_ms)
SETTINGS {DURABLE}
"""
