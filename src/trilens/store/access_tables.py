"""The tables of tokens and of who did what, as SQL: version 11, which is not edited afterwards."""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

# A row for each thing that happened to a token: made, revoked, used. Servers that share the tables write
# different rows, so that none takes back what another wrote.
ACCESS_TOKENS: Final = f"""
CREATE TABLE IF NOT EXISTS access_tokens
(
    id String,
    fact LowCardinality(String),
    t_ms Int64,
    body String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (id, fact)
SETTINGS {DURABLE}
"""

AUDIT: Final = f"""
CREATE TABLE IF NOT EXISTS audit
(
    t_ms Int64,
    id String,
    kind LowCardinality(String),
    who String,
    body String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (t_ms, id)
SETTINGS {DURABLE}
"""

ALL: Final = (ACCESS_TOKENS, AUDIT)
