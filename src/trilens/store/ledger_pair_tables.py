"""What a day of the ledger is kept in beside its rows, as SQL: version 8, which is not edited afterwards.

Most questions are about one or two dimensions. A day has rows for each two of them, `pair`, with the value
that each has, `one` and `other`: a few hundred where the day itself has tens of thousands. `fleet` tells time
that nobody held from all other, since only the bucket would.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

DAY_PAIRS: Final = f"""
CREATE TABLE IF NOT EXISTS ledger_day_pairs
(
    day_ms Int64 CODEC(Delta, ZSTD(1)),
    pair LowCardinality(String),
    one LowCardinality(Nullable(String)),
    other LowCardinality(Nullable(String)),
    fleet Bool,
    currency LowCardinality(String),
    gpu_ms Int64 CODEC(ZSTD(1)),
    throttled_ms Int64 CODEC(ZSTD(1)),
    useful_ms Int64 CODEC(ZSTD(1)),
    signal_ms Int64 CODEC(ZSTD(1)),
    quanta Decimal(38, 0) CODEC(ZSTD(1)),
    unpriced_ms Int64 CODEC(ZSTD(1)),
    written Int64 CODEC(Delta, ZSTD(1)),
    INDEX writes written TYPE minmax
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(day_ms, 'UTC'))
ORDER BY (pair, day_ms)
SETTINGS {DURABLE}
"""

# Days that were made before have no pairs: they are made again.
_HAS_PAIRS: Final = (
    "ALTER TABLE ledger_days_made ADD COLUMN IF NOT EXISTS has_pairs Bool DEFAULT false "
    "SETTINGS mutations_sync = 0"
)

# What an episode is, as one number: a month has hundreds of thousands, of which the largest are looked for.
EPISODE: Final = (
    "cityHash64(bucket, cause, workload_cluster, workload_namespace, workload_group, workload_kind, "
    "workload_name, workload_uid, ifNull(run, ''), ifNull(since_ms, -1), cluster, "
    "if(workload_name = '', node, ''), currency)"
)
_EPISODES: Final = (
    f"ALTER TABLE ledger_days ADD COLUMN IF NOT EXISTS episode UInt64 MATERIALIZED {EPISODE} CODEC(ZSTD(1)) "
    "SETTINGS mutations_sync = 0"
)

ALL: Final = (DAY_PAIRS, _HAS_PAIRS, _EPISODES)
