"""What happened: kept, each event once, and read back for any span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.store import sql
from trilens.store.event_rows import EVENTS, event_of, event_row

if TYPE_CHECKING:
    from trilens.model.event import EventRecord
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class EventRecords:
    """Thread-safe. Telling an event again changes nothing."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer

    def event(self, event: EventRecord) -> None:
        self._writer.put(EVENTS, event_row(event))

    def positions(self) -> dict[str, int]:
        """The last number that is on disk of each agent's ledger."""
        found = self._engine.query_arrow(
            f"SELECT ledger, max(number) AS last FROM {EVENTS.name} GROUP BY ledger"
        )
        return {row["ledger"]: row["last"] for row in found.to_pylist()}

    def between(
        self,
        from_ms: int,
        to_ms: int,
        *,
        node: str | None = None,
        limit: int,
        guard: QueryGuard | None = None,
    ) -> list[EventRecord]:
        """The latest `limit` of a span, both ends included, newest first."""
        terms = [f"t_ms BETWEEN {from_ms} AND {to_ms}"]
        if node is not None:
            terms.append(f"node = {sql.text(node)}")
        statement = (
            f"SELECT {', '.join(EVENTS.columns)} FROM {EVENTS.name} FINAL WHERE {' AND '.join(terms)} "
            f"ORDER BY t_ms DESC, node, number DESC LIMIT {limit}"
        )
        return [event_of(row) for row in self._engine.query_arrow(statement, guard=guard).to_pylist()]
