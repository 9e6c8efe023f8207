"""The table of what was done to clusters, as SQL: version 10, which is not edited afterwards."""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

FIXES: Final = f"""
CREATE TABLE IF NOT EXISTS fixes
(
    id String,
    t_ms Int64,
    to_ms Nullable(Int64),
    state LowCardinality(String),
    body String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY id
SETTINGS {DURABLE}
"""
