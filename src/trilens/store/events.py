"""What happened: kept, each event once, and read back for any span of time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.model.event import EventKind
from trilens.model.gpu_fault import HARDWARE_XIDS, may_take_out, takes_out
from trilens.model.workload import GpuUuid
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

_VICTIMS: Final = "JSONExtract(victims, 'Array(Tuple(String, String, String))')"
# A uid is enough; without one the name counts, which has a slash in it where a uid has none.
_VICTIM: Final = "if(one.3 = '', concat(one.1, '/', one.2), one.3)"


class EventRecords:
    """Thread-safe. Telling an event again changes nothing."""

    def __init__(self, engine: Engine, writer: RecordWriter, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._writer = writer
        self._remembered = reads or RememberedReads(engine)

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
        cluster: str | None = None,
        limit: int,
        guard: QueryGuard | None = None,
    ) -> list[EventRecord]:
        """The latest `limit` of a span, both ends included, newest first. Those of a cluster that nobody told
        may be of any."""
        terms = [f"node = {sql.text(node)}"] if node is not None else []
        terms += [_may_be_in(cluster)] if cluster is not None else []
        return self._latest(" AND ".join(terms) or None, from_ms, to_ms, limit, guard)

    def of_pods(
        self,
        cluster: str,
        pods: Iterable[tuple[str, str, str]],
        from_ms: int,
        to_ms: int,
        *,
        limit: int,
        guard: QueryGuard | None = None,
    ) -> list[EventRecord]:
        """The same of those that hit one of these of a cluster, each (namespace, name, uid)."""
        whose = {text for namespace, name, uid in pods for text in (uid, f"{namespace}/{name}") if text}
        if not whose:
            return []
        named = f"{_VICTIM} IN {sql.text_list(sorted(whose))}"
        hits = f"arrayExists(one -> {named} AND (one.3 != '' OR {_may_be_in(cluster)}), {_VICTIMS})"
        return self._latest(hits, from_ms, to_ms, limit, guard)

    def of_gpu(
        self, places: Sequence[Gpu], from_ms: int, to_ms: int, *, limit: int, guard: QueryGuard | None = None
    ) -> list[EventRecord]:
        """The same of one GPU, by all places where it was. Some lines of a kernel name it by its number
        alone: these are of the last place."""
        last, nodes = places[-1], sql.text_list(sorted({one.node for one in places}))
        names = [f"uuid = {sql.text(last.key.uuid)}"]
        if last.index.isascii() and last.index.isdecimal():
            there = f"node = {sql.text(last.node)} AND {_may_be_in(last.cluster)}"
            names.append(f"(uuid IS NULL AND {there} AND gpu = {int(last.index)})")
        return self._latest(f"node IN {nodes} AND ({' OR '.join(names)})", from_ms, to_ms, limit, guard)

    def taking_out(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[EventRecord]:
        """All Xids of a span, both ends included, after which their GPU is out of service; oldest first."""
        first_ms, last_ms = hours_around(from_ms, to_ms)
        codes = ", ".join(map(str, sorted(may_take_out())))
        terms = [
            f"t_ms BETWEEN {first_ms} AND {last_ms}",
            f"kind = {sql.text(EventKind.XID)}",
            f"code IN ({codes})",
        ]
        statement = EVENTS.selected(terms, "t_ms, node, cluster, id")
        around = self._remembered.of(EVENTS.name, statement, event_of, guard)
        return [event for event in around if from_ms <= event.t_ms <= to_ms and takes_out(event)]

    def hardware_faults(
        self, since_ms: int, *, guard: QueryGuard | None = None
    ) -> list[tuple[str, str, GpuUuid | None, int, int]]:
        """Of each GPU of a cluster and node, and of each node as a whole (None): in how many hours its
        hardware failed (one fault may fill a log), and when it did last."""
        codes = ", ".join(map(str, sorted(HARDWARE_XIDS)))
        statement = (
            f"SELECT cluster, node, uuid, intDiv(t_ms, {HOUR_MS}) AS hour, max(t_ms) AS last "
            f"FROM {EVENTS.name} "
            f"WHERE t_ms >= {since_ms} AND kind = {sql.text(EventKind.XID)} AND code IN ({codes}) "
            "GROUP BY cluster, node, uuid, hour"
        )
        rows = self._engine.query_arrow(statement, guard=guard).to_pylist()
        told: defaultdict[str, set[str]] = defaultdict(set)  # the clusters with a node of that name
        for row in rows:
            told[row["node"]] |= {row["cluster"]} - {""}
        hours: defaultdict[tuple[str, str, str], set[int]] = defaultdict(set)
        last_ms: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        for row in rows:
            node, clusters = row["node"], told[row["node"]]
            # What was kept before anybody told the cluster is of the only one that has such a node.
            cluster = row["cluster"] or (next(iter(clusters)) if len(clusters) == 1 else "")
            for key in {(cluster, node, row["uuid"] or ""), (cluster, node, "")}:
                hours[key].add(row["hour"])
                last_ms[key] = max(last_ms[key], row["last"])
        return [
            (cluster, node, GpuUuid(uuid) if uuid else None, len(found), last_ms[cluster, node, uuid])
            for (cluster, node, uuid), found in sorted(hours.items())
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
            f"ORDER BY t_ms DESC, node, cluster, number DESC LIMIT {limit}"
        )
        return self._remembered.of(EVENTS.name, statement, event_of, guard)


def _may_be_in(cluster: str) -> str:
    return f"cluster IN {sql.text_list(['', cluster])}" if cluster else "1"
