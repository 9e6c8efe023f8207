"""The tables of the ledger and of what it reads beside the others, as SQL: version 7, which is not edited
afterwards.

An hour's rows and bills carry a number, `written`, the time of writing in microseconds and larger than any
before. The row in `ledger_hours` that names it comes last: rows of a number that no hour names do not count,
and are deleted (docs/decisions/ledger-hours.md). Days are made of hours in the same way. Amounts are whole
quanta; sums of many are wider than 64 bits. NULL is "nobody", or "no price"; a workload is none where its
name is empty.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

MACHINES: Final = f"""
CREATE TABLE IF NOT EXISTS machines
(
    cluster LowCardinality(String),
    node String,
    from_ms Int64,
    to_ms Nullable(Int64),
    instance_type LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    purchase LowCardinality(String),
    provider LowCardinality(String),
    gpu_model LowCardinality(String),
    gpu_count Nullable(Int64),
    cpu_milli Nullable(Int64),
    memory_bytes Nullable(Int64),
    storage_bytes Nullable(Int64),
    state LowCardinality(String),
    reason LowCardinality(String),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, node, from_ms)
SETTINGS {DURABLE}
"""

WORKLOAD_OWNERS: Final = f"""
CREATE TABLE IF NOT EXISTS workload_owners
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    api_group LowCardinality(String),
    kind LowCardinality(String),
    name String,
    uid String,
    from_ms Int64,
    team Nullable(String),
    cost_centre Nullable(String),
    experiment Nullable(String),
    queue Nullable(String),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (cluster, namespace, api_group, kind, name, uid, from_ms)
SETTINGS {DURABLE}
"""

# What a row is, of an hour or of a day, beside when and on which GPU.
_WHOSE: Final = """
    cluster LowCardinality(String),
    node LowCardinality(String),
    model LowCardinality(String),
    purchase LowCardinality(String),
    region LowCardinality(String),
    workload_cluster LowCardinality(String),
    workload_namespace LowCardinality(String),
    workload_group LowCardinality(String),
    workload_kind LowCardinality(String),
    workload_name LowCardinality(String),
    workload_uid LowCardinality(String),
    attempt Nullable(Int64) CODEC(ZSTD(1)),
    namespace LowCardinality(Nullable(String)),
    run LowCardinality(Nullable(String)),
    experiment LowCardinality(Nullable(String)),
    team LowCardinality(Nullable(String)),
    cost_centre LowCardinality(Nullable(String)),
    queue LowCardinality(Nullable(String)),
    bucket LowCardinality(String),
    cause LowCardinality(String),
    since_ms Nullable(Int64) CODEC(ZSTD(1)),
    step Nullable(Int64) CODEC(ZSTD(1)),
    basis LowCardinality(String),
    currency LowCardinality(String),
    gpu_ms Int64 CODEC(ZSTD(1)),
    throttled_ms Int64 CODEC(ZSTD(1))"""

_WRITTEN: Final = """
    written Int64 CODEC(Delta, ZSTD(1)),
    INDEX writes written TYPE minmax"""

_MONTHLY: Final = f"""
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli({{time}}, 'UTC'))
ORDER BY {{order}}
SETTINGS {DURABLE}
"""

ROWS: Final = f"""
CREATE TABLE IF NOT EXISTS ledger_rows
(
    hour_ms Int64 CODEC(Delta, ZSTD(1)),
    gpu LowCardinality(String),{_WHOSE},
    quanta Nullable(Int64) CODEC(ZSTD(1)),
    doubts Array(LowCardinality(String)) CODEC(ZSTD(1)),{_WRITTEN}
)
ENGINE = MergeTree{_MONTHLY.format(time="hour_ms", order="(hour_ms, cluster, node, gpu)")}"""

BILLS: Final = f"""
CREATE TABLE IF NOT EXISTS ledger_bills
(
    hour_ms Int64 CODEC(Delta, ZSTD(1)),
    cluster LowCardinality(String),
    node LowCardinality(String),
    there_ms Int64,
    gpu_ms Int64,
    quanta Nullable(Int64),
    priced_ms Int64,
    currency LowCardinality(String),
    components Map(LowCardinality(String), Int64) CODEC(ZSTD(1)),
    price LowCardinality(String),{_WRITTEN}
)
ENGINE = MergeTree{_MONTHLY.format(time="hour_ms", order="(hour_ms, cluster, node)")}"""

# `stale`: numbers whose rows had yet to be deleted when this was written; the last row has all of them.
HOURS: Final = f"""
CREATE TABLE IF NOT EXISTS ledger_hours
(
    hour_ms Int64,
    revision Int64,
    upto_ms Int64,
    computed_ms Int64,
    row_count Int64,
    gpu_ms Int64,
    quanta Decimal(38, 0),
    unpriced_ms Int64,
    currency LowCardinality(String),
    changed_quanta Decimal(38, 0),
    reason String,
    prices String,
    digest String,
    warnings String CODEC(ZSTD(1)),
    written Int64,
    stale Array(Int64),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (hour_ms, revision)
SETTINGS {DURABLE}
"""

# `gpus` are hashes of UUIDs: how many they were is all that is asked for.
DAYS: Final = f"""
CREATE TABLE IF NOT EXISTS ledger_days
(
    day_ms Int64 CODEC(Delta, ZSTD(1)),{_WHOSE},
    quanta Decimal(38, 0) CODEC(ZSTD(1)),
    unpriced_ms Int64 CODEC(ZSTD(1)),
    gpus Array(UInt64) CODEC(ZSTD(1)),
    first_ms Int64 CODEC(ZSTD(1)),
    last_ms Int64 CODEC(ZSTD(1)),{_WRITTEN}
)
ENGINE = MergeTree{_MONTHLY.format(time="day_ms", order="(day_ms, cluster, node)")}"""

# `hours`: the numbers of the hours that the day was made of.
DAYS_MADE: Final = f"""
CREATE TABLE IF NOT EXISTS ledger_days_made
(
    day_ms Int64,
    hours Array(Int64),
    written Int64,
    stale Array(Int64),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY day_ms
SETTINGS {DURABLE}
"""

# A number of GPUs is written as a fraction, "1/7".
IMPORTED_JOBS: Final = f"""
CREATE TABLE IF NOT EXISTS imported_jobs
(
    source LowCardinality(String),
    job String,
    cluster LowCardinality(String),
    submit_ms Nullable(Int64),
    start_ms Int64,
    end_ms Nullable(Int64),
    gpus LowCardinality(String),
    model LowCardinality(String),
    owner LowCardinality(String),
    team LowCardinality(Nullable(String)),
    queue LowCardinality(Nullable(String)),
    name String,
    state LowCardinality(String),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (source, job)
SETTINGS {DURABLE}
"""

IMPORTED_USAGE: Final = f"""
CREATE TABLE IF NOT EXISTS imported_usage
(
    source LowCardinality(String),
    cluster LowCardinality(String),
    t_ms Int64 CODEC(Delta, ZSTD(1)),
    model LowCardinality(String),
    team LowCardinality(String),
    has_team UInt8,
    ms Int64 CODEC(ZSTD(1)),
    in_use LowCardinality(String),
    there LowCardinality(Nullable(String)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (source, cluster, t_ms, model, has_team, team)
SETTINGS {DURABLE}
"""

# Steps lie in the order of their numbers. When each few thousand of them ended is kept beside them: an hour
# is found among a hundred million, whenever they came in. What an hour is added up from is kept beside the
# maps it comes from, which take three times as long to read.
_STEPS: Final = (
    *(
        f"ALTER TABLE run_steps ADD COLUMN IF NOT EXISTS {name} Int64 MATERIALIZED {expression} "
        "CODEC(T64, ZSTD(1)) SETTINGS mutations_sync = 0"
        for name, expression in (
            ("data_us", "phases['data']"),
            ("sync_us", "phases['grad_sync'] + phases['barrier']"),
            ("checkpoint_us", "phases['checkpoint']"),
            ("device_us", "arraySum(mapValues(device)) - device['data']"),
            ("device_sync_us", "device['grad_sync'] + device['barrier']"),
        )
    ),
    "ALTER TABLE run_steps ADD INDEX IF NOT EXISTS ends (start_us + us) TYPE minmax "
    "SETTINGS mutations_sync = 0",
    "ALTER TABLE run_steps MATERIALIZE INDEX ends SETTINGS mutations_sync = 0",
)

ALL: Final = (
    MACHINES,
    WORKLOAD_OWNERS,
    ROWS,
    BILLS,
    HOURS,
    DAYS,
    DAYS_MADE,
    IMPORTED_JOBS,
    IMPORTED_USAGE,
    *_STEPS,
)
