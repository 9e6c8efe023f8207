"""The table of what people are to be told, as SQL: version 12, which is not edited afterwards.

Of servers that take turns each finds here what the one before was about to tell, had told, and was asked to
be silent about. A row without a body is no more.
"""

from __future__ import annotations

from typing import Final

from trilens.store.schema import DURABLE

NOTIFICATIONS: Final = f"""
CREATE TABLE IF NOT EXISTS notifications
(
    kind LowCardinality(String),
    key String,
    body Nullable(String) CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (kind, key)
SETTINGS {DURABLE}
"""
