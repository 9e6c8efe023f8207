"""The tables of runs, as SQL: version 5, which is not edited afterwards.

What programs send is inserted in groups; `commit` is the time of the group by this server's clock in
microseconds, larger than that of any group before, and a group lies in one partition of each table. Its rows
in `run_positions` are written last: rows of a group that has none there are of an insert that was
interrupted, and are deleted at the next start (docs/decisions/run-records.md). None is NULL, never zero;
what is read only together with its row lies in it as JSON.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

# Whole partitions expire: weeks of what grows with every step of every rank, months of the rest.
_WEEKLY: Final = f"""
PARTITION BY toMonday(fromUnixTimestamp64Micro(commit, 'UTC'))
ORDER BY {{order}}
SETTINGS {DURABLE},
    min_parts_to_merge_at_once = 10"""
_MONTHLY: Final = _WEEKLY.replace("toMonday", "toYYYYMM")

_WHOSE: Final = """
    run LowCardinality(String),
    step Int64 CODEC(Delta, ZSTD(1)),
    rank Int32 CODEC(Delta, ZSTD(1)),
    attempt Int32 CODEC(ZSTD(1)),
    n Int64 CODEC(Delta, ZSTD(1))"""

_COMMIT: Final = """
    commit Int64 CODEC(Delta, ZSTD(1)),
    INDEX commits commit TYPE minmax"""

RUNS: Final = f"""
CREATE TABLE IF NOT EXISTS runs
(
    run String,
    created_ms Int64,
    experiment Nullable(String),
    name Nullable(String),
    config String CODEC(ZSTD(1)),
    tags String CODEC(ZSTD(1)),
    world_size Nullable(Int64),
    total_steps Nullable(Int64),
    trackers String CODEC(ZSTD(1)),
    source LowCardinality(String),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY run
SETTINGS {DURABLE}
"""

PROCESSES: Final = f"""
CREATE TABLE IF NOT EXISTS run_processes
(
    run LowCardinality(String),
    rank Int64,
    writer String,
    started_ms Int64,
    attempt Int64,
    local_rank Nullable(Int64),
    world_size Nullable(Int64),
    node LowCardinality(String),
    pid Nullable(Int64),
    process_started_ms Nullable(Int64),
    namespace LowCardinality(Nullable(String)),
    pod Nullable(String),
    pod_uid Nullable(String),
    container LowCardinality(Nullable(String)),
    gpus String CODEC(ZSTD(1)),
    launcher LowCardinality(Nullable(String)),
    job Nullable(String),
    metrics_address Nullable(String),
    versions String CODEC(ZSTD(1)),
    heartbeat_ms Int64,
    heard_ms Int64,
    step Nullable(Int64),
    phase LowCardinality(Nullable(String)),
    clock_offset_us Nullable(Int64),
    lost String CODEC(ZSTD(1)),
    ended_ms Nullable(Int64),
    ending LowCardinality(Nullable(String)),
    error Nullable(String) CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (run, rank, writer)
SETTINGS {DURABLE}
"""

POSITIONS: Final = f"""
CREATE TABLE IF NOT EXISTS run_positions
(
    run LowCardinality(String),
    rank Int32,
    writer String,
    attempt Int32,
    seq Int64,
    spans String CODEC(ZSTD(1)),
    commit Int64
)
ENGINE = ReplacingMergeTree(commit)
ORDER BY (run, rank, writer)
SETTINGS {DURABLE}
"""

STEPS: Final = f"""
CREATE TABLE IF NOT EXISTS run_steps
({_WHOSE},
    start_us Int64 CODEC(Delta, ZSTD(1)),
    us Int64 CODEC(ZSTD(1)),
    phases Map(LowCardinality(String), Int64) CODEC(ZSTD(1)),
    device Map(LowCardinality(String), Int64) CODEC(ZSTD(1)),
    values Map(LowCardinality(String), Float64) CODEC(ZSTD(1)),
    samples Nullable(Int64) CODEC(ZSTD(1)),
    tokens Nullable(Int64) CODEC(ZSTD(1)),
    epoch Nullable(Int64) CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_WEEKLY.format(order="(run, step, rank, attempt, n)")},
    index_granularity = 4096
"""

# A value over the ranks of one group: what a curve over a hundred million steps is drawn from.
CURVES: Final = f"""
CREATE TABLE IF NOT EXISTS run_curves
(
    run LowCardinality(String),
    value LowCardinality(String),
    step Int64 CODEC(Delta, ZSTD(1)),
    attempt Int32 CODEC(ZSTD(1)),
    t_us Int64 CODEC(Delta, ZSTD(1)),
    told Int64 CODEC(ZSTD(1)),
    total Float64 CODEC(ZSTD(1)),
    worst Float64 CODEC(ZSTD(1)),
    worst_rank Int32 CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_MONTHLY.format(order="(run, value, step, attempt)")}
"""

# `low` and `high` bound a range; of what is none, `low` is above `high`.
BATCHES: Final = f"""
CREATE TABLE IF NOT EXISTS run_batches
({_WHOSE},
    i Int32 CODEC(ZSTD(1)),
    dataset LowCardinality(String),
    shard LowCardinality(Nullable(String)),
    epoch Nullable(Int64) CODEC(ZSTD(1)),
    size Nullable(Int64) CODEC(ZSTD(1)),
    first Nullable(Int64) CODEC(Delta, ZSTD(1)),
    stride Int64 CODEC(ZSTD(1)),
    ids Array(Int64) CODEC(ZSTD(1)),
    names Array(String) CODEC(ZSTD(1)),
    digest Nullable(String) CODEC(ZSTD(1)),
    unknown LowCardinality(Nullable(String)),
    low Int64 CODEC(Delta, ZSTD(1)),
    high Int64 CODEC(Delta, ZSTD(1)),{_COMMIT},
    INDEX lows low TYPE minmax,
    INDEX highs high TYPE minmax
)
ENGINE = MergeTree{_WEEKLY.format(order="(run, step, rank, attempt, n, i)")},
    index_granularity = 4096
"""

# Which batches of one group came from where: what a checkpoint holds is added up from this.
SHARES: Final = f"""
CREATE TABLE IF NOT EXISTS run_shares
(
    run LowCardinality(String),
    attempt Int32 CODEC(ZSTD(1)),
    step Int64 CODEC(Delta, ZSTD(1)),
    dataset LowCardinality(String),
    shard LowCardinality(Nullable(String)),
    batches Int64 CODEC(ZSTD(1)),
    samples Int64 CODEC(ZSTD(1)),
    unknown Int64 CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_MONTHLY.format(order="(run, attempt, step)")}
"""

# The other way round, for samples that were told one by one. A text is found by a hash of it.
SAMPLES: Final = f"""
CREATE TABLE IF NOT EXISTS run_samples
(
    sample Int64 CODEC(Delta, ZSTD(1)),
    run LowCardinality(String),
    dataset LowCardinality(String),
    shard LowCardinality(Nullable(String)),
    name String CODEC(ZSTD(1)),
    step Int64 CODEC(ZSTD(1)),
    rank Int32 CODEC(ZSTD(1)),
    attempt Int32 CODEC(ZSTD(1)),
    n Int64 CODEC(ZSTD(1)),
    epoch Nullable(Int64) CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_WEEKLY.format(order="(sample, run, dataset, step)")},
    index_granularity = 2048
"""

CHECKPOINTS: Final = f"""
CREATE TABLE IF NOT EXISTS run_checkpoints
({_WHOSE},
    path String CODEC(ZSTD(1)),
    start_ms Int64,
    loaded UInt8,
    us Nullable(Int64),
    size_bytes Nullable(Int64),
    ok UInt8,
    error Nullable(String) CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_MONTHLY.format(order="(run, step, rank, attempt, n)")}
"""

VALIDATIONS: Final = f"""
CREATE TABLE IF NOT EXISTS run_validations
({_WHOSE},
    t_ms Int64,
    us Nullable(Int64),
    values Map(LowCardinality(String), Float64) CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_MONTHLY.format(order="(run, step, rank, attempt, n)")}
"""

NOTES: Final = f"""
CREATE TABLE IF NOT EXISTS run_notes
(
    run LowCardinality(String),
    t_ms Int64,
    rank Int32,
    attempt Int32,
    n Int64,
    kind LowCardinality(String),
    description String CODEC(ZSTD(1)),
    step Nullable(Int64),
    data String CODEC(ZSTD(1)),{_COMMIT}
)
ENGINE = MergeTree{_MONTHLY.format(order="(run, t_ms, rank, attempt, n)")}
"""

ARTIFACTS: Final = f"""
CREATE TABLE IF NOT EXISTS run_artifacts
(
    run LowCardinality(String),
    t_ms Int64,
    rank Int32,
    attempt Int32,
    n Int64,
    kind LowCardinality(String),
    name String,
    size_bytes Int64,
    content String CODEC(ZSTD(3)),{_COMMIT}
)
ENGINE = MergeTree{_WEEKLY.format(order="(run, rank, attempt, n)")},
    index_granularity = 16
"""

ALL: Final = (
    RUNS,
    PROCESSES,
    POSITIONS,
    STEPS,
    CURVES,
    BATCHES,
    SHARES,
    SAMPLES,
    CHECKPOINTS,
    VALIDATIONS,
    NOTES,
    ARTIFACTS,
)
