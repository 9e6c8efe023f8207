"""What happened: kept, each event once, and read back for any span of time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.model.event import EventKind
from trilens.model.workload import GpuUuid
from trilens.model.xid import XIDS, Asks
from trilens.store import sql
from trilens.store.event_rows import EVENTS, event_of, event_row
from trilens.store.remembered_reads import RememberedReads, hours_around
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.event import EventRecord
    from trilens.model.gpu import Gpu
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter

_HARDWARE: Final = sorted(code for code, xid in XIDS.items() if xid.asks in (Asks.GPU_RESET, Asks.NODE_OUT))
_VICTIMS: Final = "JSONExtract(victims, 'Array(Tuple(String, String, String))')"
# A uid is enough; without one the name counts, which has a slash in it where a uid has none.
_VICTIM: Final = "if(one.3 = '', concat(one.1, '/', one.2), one.3)"


class EventRecords:
    """Thread-safe. Telling an event again changes nothing."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._remembered = RememberedReads(engine)

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
        term = f"node = {sql.text(node)}" if node is not None else None
        return self._latest(term, from_ms, to_ms, limit, guard)

    def of_pods(
        self,
        pods: Iterable[tuple[str, str, str]],
        from_ms: int,
        to_ms: int,
        *,
        limit: int,
        guard: QueryGuard | None = None,
    ) -> list[EventRecord]:
        """The same of those that hit one of these, each (namespace, name, uid)."""
        whose = {text for namespace, name, uid in pods for text in (uid, f"{namespace}/{name}") if text}
        if not whose:
            return []
        hits = f"arrayExists(one -> {_VICTIM} IN {sql.text_list(sorted(whose))}, {_VICTIMS})"
        return self._latest(hits, from_ms, to_ms, limit, guard)

    def of_gpu(
        self, places: Sequence[Gpu], from_ms: int, to_ms: int, *, limit: int, guard: QueryGuard | None = None
    ) -> list[EventRecord]:
        """The same of one GPU, by all places where it was. Some lines of a kernel name it by its number
        alone: these are of the last place."""
        last, nodes = places[-1], sql.text_list(sorted({one.node for one in places}))
        names = [f"uuid = {sql.text(last.key.uuid)}"]
        if last.index.isascii() and last.index.isdecimal():
            names.append(f"(uuid IS NULL AND node = {sql.text(last.node)} AND gpu = {int(last.index)})")
        return self._latest(f"node IN {nodes} AND ({' OR '.join(names)})", from_ms, to_ms, limit, guard)

    def hardware_faults(
        self, since_ms: int, *, guard: QueryGuard | None = None
    ) -> list[tuple[str, GpuUuid | None, int, int]]:
        """Of each GPU, and of each node as a whole (None): in how many hours its hardware failed (one fault
        may fill a log), and when it did last."""
        codes = ", ".join(map(str, _HARDWARE))
        statement = (
            f"SELECT node, uuid, intDiv(t_ms, {HOUR_MS}) AS hour, max(t_ms) AS last FROM {EVENTS.name} "
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

    def _latest(
        self, term: str | None, from_ms: int, to_ms: int, limit: int, guard: QueryGuard | None
    ) -> list[EventRecord]:
        around = self._read(term, *hours_around(from_ms, to_ms), limit, guard)
        if len(around) == limit:  # more may have been cut off than lie outside
            return self._read(term, from_ms, to_ms, limit, guard)
        return [event for event in around if from_ms <= event.t_ms <= to_ms]

    def _read(
        self, term: str | None, from_ms: int, to_ms: int, limit: int, guard: QueryGuard | None
    ) -> list[EventRecord]:
        terms = [f"t_ms BETWEEN {from_ms} AND {to_ms}", *([term] if term is not None else [])]
        statement = (
            f"SELECT {', '.join(EVENTS.columns)} FROM {EVENTS.name} FINAL WHERE {' AND '.join(terms)} "
            f"ORDER BY t_ms DESC, node, number DESC LIMIT {limit}"
        )
        return self._remembered.of(EVENTS.name, statement, event_of, guard)
