"""What was done to clusters, and what waits to be: kept whole, each under its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.fix import Fix, FixState
from trilens.store import sql
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter

FIXES: Final = Table("fixes", ("id",), ("t_ms", "to_ms", "state", "body"))
_FIX: Final = msgspec.json.Decoder(Fix)


class FixRecords:
    """Thread-safe. One that is told again replaces what was told."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer

    def put(self, fix: Fix) -> None:
        body = msgspec.json.encode(fix).decode()
        row = {"id": fix.id, "t_ms": fix.t_ms, "to_ms": fix.ended_ms, "state": fix.state.value, "body": body}
        self._writer.put(FIXES, row)

    def settled(self, timeout_s: float) -> bool:
        """Waits until all that was told is on disk, for so long at the most; whether it is."""
        return self._writer.settled(timeout_s)

    def get(self, id: str) -> Fix | None:
        found = self._fixes(f"id = {sql.text(id)}", 1)
        return found[0] if found else None

    def latest(
        self, limit: int, *, state: FixState | None = None, guard: QueryGuard | None = None
    ) -> list[Fix]:
        return self._fixes("1" if state is None else f"state = {sql.text(state)}", limit, guard)

    def open(self) -> list[Fix]:
        states = ", ".join(sql.text(state) for state in (FixState.WAITING, FixState.BEGUN))
        return self._fixes(f"state IN ({states})")

    def _fixes(self, condition: str, limit: int | None = None, guard: QueryGuard | None = None) -> list[Fix]:
        statement = f"SELECT body FROM {FIXES.name} FINAL WHERE {condition} ORDER BY t_ms DESC, id" + (
            f" LIMIT {limit}" if limit is not None else ""
        )
        found = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return [_FIX.decode(row["body"]) for row in found]
