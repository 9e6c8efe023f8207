"""The tables of samples, as SQL. Their history is in migrations.py; this is version 1, not edited afterwards.

`samples` lies in order of (metric, 4-hour bucket, series, t), in day partitions. Tried on 2,000 series x 24 h
at 15 s (milliseconds to read through Arrow, merged, two cores, disk in bytes a sample):

    bucket, granule, block   disk   8 series x 24 h   8 x 6 h   1,000 x 5 min   1,000 x 24 h
    1 h,    8192, 256 KiB    0.89         60            17            10             236
    1 h,    2048,  64 KiB    0.95         21            11            10             184
    4 h,    2048,  64 KiB    0.89         12             8            16             218
    24 h,   2048,  64 KiB    0.87          6             5            86             207

The last hours are answered from memory, so what reaches the disk are longer reads: 4 hours is the middle.

Values, 48 GPUs x 21 DCGM fields x 24 h, whole rows in bytes a sample: ZSTD(3) 1.53, Gorilla + ZSTD 1.72,
FPC + ZSTD 1.70, Delta + ZSTD 1.49, ALP + ZSTD(3) 1.09, and ALP is also the fastest to read. ALP
(adaptive lossless floating point, in newer engines, still called beta) was tried bit by bit on staleness
markers, other NaNs, infinities, -0.0, subnormals and random bits; an engine without it gets ZSTD(3).
"""

from __future__ import annotations

from typing import Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

SCHEMA_VERSION: Final = """
CREATE TABLE IF NOT EXISTS schema_version
(
    version UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree ORDER BY version
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
"""

# A merge must be on disk before the parts it came from go. The number_of_free_entries settings keep a small
# background pool from refusing large merges, as it would when measured against ClickHouse's default of 16.
DURABLE: Final = """
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    max_suspicious_broken_parts = 1000000,
    max_suspicious_broken_parts_bytes = 1000000000000000,
    number_of_free_entries_in_pool_to_lower_max_size_of_merge = 1,
    number_of_free_entries_in_pool_to_execute_mutation = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 1"""

_EXPIRING: Final = f"""{DURABLE},
    ttl_only_drop_parts = 1,
    merge_with_ttl_timeout = 3600"""

# Times are milliseconds since the epoch, as Prometheus counts them. A part comes every few seconds: merging
# ten of them at once writes each sample less often than the engine's choice of four or five.
SAMPLES: Final = f"""
CREATE TABLE IF NOT EXISTS samples
(
    metric LowCardinality(String) CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    t Int64 CODEC(DoubleDelta, ZSTD(1)),
    v Float64 CODEC(VALUE_CODEC)
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Milli(t, 'UTC'))
ORDER BY (metric, intDiv(t, 14400000), series, t)
SETTINGS {_EXPIRING},
    index_granularity = 2048,
    min_parts_to_merge_at_once = 10,
    min_compress_block_size = 65536,
    max_compress_block_size = 1048576
"""

# `series` is a hash of all labels; `metric` is the label __name__, which `labels` does not repeat.
SERIES: Final = f"""
CREATE TABLE IF NOT EXISTS series
(
    series UInt64,
    metric LowCardinality(String),
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    first_seen Int64,
    last_seen Int64
)
ENGINE = ReplacingMergeTree(last_seen)
ORDER BY (metric, series)
SETTINGS {DURABLE}
"""

# When each series was seen and its newest sample, saved from time to time so that a start need not look for
# them among the samples.
ACTIVITY: Final = f"""
CREATE TABLE IF NOT EXISTS activity
(
    series UInt64,
    first_t Int64,
    last_t Int64,
    last_v Float64
)
ENGINE = ReplacingMergeTree(last_t)
ORDER BY series
SETTINGS {DURABLE}
"""

METADATA: Final = f"""
CREATE TABLE IF NOT EXISTS metadata
(
    metric String,
    kind LowCardinality(String),
    help String,
    unit String,
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY metric
SETTINGS {DURABLE}
"""


def _rollup(table: str) -> str:
    """One row a series and window (end_t - width, end_t], open at the left as PromQL's ranges are.

    `reset_sum` adds up the values just before each counter reset, so that last - first + reset_sum is what
    the counter grew by; `special` counts NaN and infinities, which min and max pass over or show; `ended`
    says that a staleness marker follows the last sample, and may stand in a window without any.
    Rolling a window again writes the same keys with a higher version.
    """
    return f"""
CREATE TABLE IF NOT EXISTS {table}
(
    metric LowCardinality(String) CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    end_t Int64 CODEC(DoubleDelta, ZSTD(1)),
    samples UInt32 CODEC(ZSTD(1)),
    special UInt32 CODEC(ZSTD(1)),
    min Float64 CODEC(VALUE_CODEC),
    max Float64 CODEC(VALUE_CODEC),
    sum Float64 CODEC(VALUE_CODEC),
    first_t Int64 CODEC(DoubleDelta, ZSTD(1)),
    first Float64 CODEC(VALUE_CODEC),
    last_t Int64 CODEC(DoubleDelta, ZSTD(1)),
    last Float64 CODEC(VALUE_CODEC),
    resets UInt32 CODEC(ZSTD(1)),
    reset_sum Float64 CODEC(VALUE_CODEC),
    ended UInt8 CODEC(ZSTD(1)),
    version Int64 CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(end_t, 'UTC'))
ORDER BY (metric, intDiv(end_t, 86400000), series, end_t)
SETTINGS {_EXPIRING},
    index_granularity = 2048
"""


SAMPLES_5M: Final = _rollup("samples_5m")
SAMPLES_1H: Final = _rollup("samples_1h")

# How far each background job has come.
PROGRESS: Final = f"""
CREATE TABLE IF NOT EXISTS progress
(
    job String,
    until_ms Int64,
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY job
SETTINGS {DURABLE}
"""

# Hours that were rolled up before some of their samples came; `dirty` returns to 0 once rolled again.
ROLLUP_HOURS: Final = f"""
CREATE TABLE IF NOT EXISTS rollup_hours
(
    end_t Int64,
    dirty UInt8,
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY end_t
SETTINGS {DURABLE}
"""
