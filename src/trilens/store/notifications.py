"""The queue of notifications, kept where the next server finds it; a small thing, read and held whole."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.store.engine import Engine

TABLE: Final = "notifications"
_THERE: Final = f"SELECT kind, key FROM {TABLE} WHERE body IS NOT NULL"


class NotificationRecords:
    """Thread-safe. Everything raises StoreError."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._version = 0

    def load(self) -> list[tuple[str, str, str]]:
        """Kind, key and body of all there are; rows that are no more are tidied away."""
        newest = self._engine.query_arrow(f"SELECT max(version) AS version, count() AS n FROM {TABLE}")
        self._version = max(self._version, int(newest["version"][0].as_py() or 0))
        if newest["n"][0].as_py():
            self._engine.command(f"OPTIMIZE TABLE {TABLE} FINAL")
            self._engine.command(f"DELETE FROM {TABLE} WHERE body IS NULL AND (kind, key) NOT IN ({_THERE})")
        found = self._engine.query_arrow(
            f"SELECT kind, key, body FROM {TABLE} FINAL WHERE body IS NOT NULL ORDER BY kind, key"
        )
        return [(row["kind"], row["key"], row["body"]) for row in found.to_pylist()]

    def put(self, rows: Sequence[tuple[str, str, str | None]]) -> None:
        """On disk when it returns. A row without a body is no more."""
        if not rows:
            return
        with self._lock:
            # Larger than any before, also of a server whose clock was ahead.
            self._version = max(self._version + 1, time.time_ns())
            kinds, keys, bodies = zip(*rows, strict=True)
            columns = {
                "kind": pa.array(kinds, pa.string()),
                "key": pa.array(keys, pa.string()),
                "body": pa.array(bodies, pa.string()),
                "version": pa.array([self._version] * len(rows), pa.int64()),
            }
            self._engine.insert_arrow(TABLE, pa.table(columns))
