"""What happened: kept, each event once, and read back for any span of time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.model.event import EventKind
from trilens.model.workload import GpuUuid
from trilens.model.xid import XIDS, Asks
from trilens.store import sql
from trilens.store.event_rows import EVENTS, event_of, event_row

if TYPE_CHECKING:
    from trilens.model.event import EventRecord
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


_HARDWARE: Final = sorted(code for code, xid in XIDS.items() if xid.asks in (Asks.GPU_RESET, Asks.NODE_OUT))
_HOUR_MS: Final = 3_600_000


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

    def hardware_faults(
        self, since_ms: int, *, guard: QueryGuard | None = None
    ) -> list[tuple[str, GpuUuid | None, int, int]]:
        """Of each GPU, and of each node as a whole (None): in how many hours its hardware failed (one fault
        may fill a log), and when it did last."""
        codes = ", ".join(map(str, _HARDWARE))
        statement = (
            f"SELECT node, uuid, intDiv(t_ms, {_HOUR_MS}) AS hour, max(t_ms) AS last FROM {EVENTS.name} "
            f"WHERE t_ms >= {since_ms} AND kind = {sql.text(EventKind.XID)} AND code IN ({codes}) "
            "GROUP BY node, uuid, hour"
        )
        hours: defaultdict[tuple[str, str | None], set[int]] = defaultdict(set)
        last_ms: defaultdict[tuple[str, str | None], int] = defaultdict(int)
        for row in self._engine.query_arrow(statement, guard=guard).to_pylist():
            for key in {(row["node"], row["uuid"] or None), (row["node"], None)}:
                hours[key].add(row["hour"])
                last_ms[key] = max(last_ms[key], row["last"])
        return [
            (node, GpuUuid(uuid) if uuid is not None else None, len(found), last_ms[node, uuid])
            for (node, uuid), found in sorted(hours.items(), key=lambda one: (one[0][0], one[0][1] or ""))
        ]
