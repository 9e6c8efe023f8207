"""Of which cluster it is, where rows did not say it, as SQL: version 13, which is not edited afterwards.

Two clusters may have nodes, pods and jobs of one name. Rows from before are of a cluster that nobody told:
NULL, and "" in a key.
"""

from __future__ import annotations

from typing import Final

_SETTINGS: Final = "SETTINGS mutations_sync = 0"

ALL: Final = (
    "ALTER TABLE run_processes ADD COLUMN IF NOT EXISTS cluster LowCardinality(Nullable(String)) "
    f"{_SETTINGS}",
    "ALTER TABLE events ADD COLUMN IF NOT EXISTS cluster LowCardinality(String), "
    f"MODIFY ORDER BY (node, id, cluster) {_SETTINGS}",
)
