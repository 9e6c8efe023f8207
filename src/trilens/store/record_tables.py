"""The tables of records, as SQL: version 2, which is not edited afterwards.

An interval is told when it begins and again when it ends, a workload whenever something about it changes: the
row with the higher version replaces the other. None is NULL, never zero. Doubts and steps are read only with
the row they belong to, so they lie in it as JSON.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

WORKLOADS: Final = f"""
CREATE TABLE IF NOT EXISTS workloads
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    api_group LowCardinality(String),
    kind LowCardinality(String),
    name String,
    uid String,
    created_ms Nullable(Int64),
    attempt Int64,
    team Nullable(String),
    cost_centre Nullable(String),
    experiment Nullable(String),
    queue Nullable(String),
    steps String CODEC(ZSTD(1)),
    doubts String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, namespace, api_group, kind, name, uid)
SETTINGS {DURABLE}
"""

MEMBERSHIPS: Final = f"""
CREATE TABLE IF NOT EXISTS memberships
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    pod String,
    pod_uid String,
    from_ms Int64,
    to_ms Nullable(Int64),
    workload_namespace LowCardinality(String),
    workload_group LowCardinality(String),
    workload_kind LowCardinality(String),
    workload_name String,
    workload_uid String,
    attempt Int64,
    role LowCardinality(String),
    member_group Nullable(Int64),
    node_rank Nullable(Int64),
    node LowCardinality(String),
    doubts String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, namespace, pod, pod_uid, from_ms)
SETTINGS {DURABLE}
"""

# Two phases may begin in the same millisecond, the first of them having lasted none.
PHASES: Final = f"""
CREATE TABLE IF NOT EXISTS phases
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    api_group LowCardinality(String),
    kind LowCardinality(String),
    name String,
    uid String,
    from_ms Int64,
    attempt Int64,
    phase LowCardinality(String),
    to_ms Nullable(Int64),
    reason String,
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, namespace, api_group, kind, name, uid, from_ms, attempt, phase)
SETTINGS {DURABLE}
"""
