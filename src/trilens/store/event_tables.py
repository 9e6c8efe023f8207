"""The table of events, as SQL: version 4, which is not edited afterwards.

An event that is told again, by an agent that began anew or to a server that did, has the same key: the rows
are one. Whom it hit lies in the row as JSON; which workload that was the memberships tell, of its time.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

EVENTS: Final = f"""
CREATE TABLE IF NOT EXISTS events
(
    node LowCardinality(String),
    id String,
    t_ms Int64,
    kind LowCardinality(String),
    code Nullable(Int64),
    description String CODEC(ZSTD(1)),
    title Nullable(String),
    asks Nullable(String),
    uuid Nullable(String),
    gpu Nullable(Int64),
    pci Nullable(String),
    pid Nullable(Int64),
    process Nullable(String),
    process_rank Nullable(Int64),
    victims String CODEC(ZSTD(1)),
    ledger String,
    number Int64,
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (node, id)
SETTINGS {DURABLE}
"""
