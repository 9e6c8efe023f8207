"""The tables of findings and incidents, as SQL: version 9, which is not edited afterwards.

Rows replace each other as those of record_tables do. What a row is looked for by has a column; the whole of
it lies beside that as JSON, since it is only ever read together.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

FINDINGS: Final = f"""
CREATE TABLE IF NOT EXISTS findings
(
    detector LowCardinality(String),
    cause LowCardinality(String),
    subject String CODEC(ZSTD(1)),
    detected_ms Int64,
    kind LowCardinality(String),
    run String,
    onset_ms Int64,
    seen_ms Int64,
    to_ms Nullable(Int64),
    body String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (detector, cause, subject, detected_ms)
SETTINGS {DURABLE}
"""

INCIDENTS: Final = f"""
CREATE TABLE IF NOT EXISTS incidents
(
    id String,
    onset_ms Int64,
    to_ms Nullable(Int64),
    body String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY id
SETTINGS {DURABLE}
"""

ALL: Final = (FINDINGS, INCIDENTS)
