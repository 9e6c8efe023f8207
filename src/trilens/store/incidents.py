"""Incidents: kept whole, each under its id, and read back for any span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.store import sql
from trilens.store.finding_rows import INCIDENTS, incident_of, incident_row
from trilens.store.remembered_reads import RememberedReads, hours_around

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.model.workload import WorkloadKey
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class IncidentRecords:
    """Thread-safe. What is told can be read a moment later, and survives the process once it was written; one
    that is told again replaces what was told."""

    def __init__(self, engine: Engine, writer: RecordWriter, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._writer = writer
        self._remembered = reads or RememberedReads(engine)

    def put(self, incidents: Sequence[Incident]) -> None:
        for incident in incidents:
            self._writer.put(INCIDENTS, incident_row(incident))

    def get(self, id: str, *, guard: QueryGuard | None = None) -> Incident | None:
        found = self._incidents(f"id = {sql.text(id)}", guard)
        return found[0] if found else None

    def during(
        self,
        from_ms: int,
        to_ms: int,
        *,
        naming: WorkloadKey | None = None,
        limit: int | None = None,
        guard: QueryGuard | None = None,
    ) -> list[Incident]:
        """Those that lasted at some time of it, both ends included, the latest first; at most so many.
        `naming` leaves out those that tell nothing of a workload of this name."""
        around = self._incidents(_during(*hours_around(from_ms, to_ms), naming), guard, limit)
        if limit is not None and len(around) == limit:  # more may have been cut off than lie outside
            return self._incidents(_during(from_ms, to_ms, naming), guard, limit)
        return [
            one
            for one in around
            if one.onset_ms <= to_ms and (one.resolved_ms is None or one.resolved_ms >= from_ms)
        ]

    def open(self) -> list[Incident]:
        return self._incidents("to_ms IS NULL", None)

    def _incidents(
        self, condition: str, guard: QueryGuard | None, limit: int | None = None
    ) -> list[Incident]:
        statement = (
            f"SELECT body FROM {INCIDENTS.name} FINAL WHERE {condition} ORDER BY onset_ms DESC, id"
            + (f" LIMIT {limit}" if limit is not None else "")
        )
        return self._remembered.of(INCIDENTS.name, statement, incident_of, guard)


def _during(from_ms: int, to_ms: int, naming: WorkloadKey | None) -> str:
    condition = f"onset_ms <= {to_ms} AND (to_ms IS NULL OR to_ms >= {from_ms})"
    if naming is not None:
        names = (naming, f"{naming.namespace}/{naming.kind}/{naming.name}")
        written = (sql.text(msgspec.json.encode(name).decode()) for name in names)
        condition += f" AND ({' OR '.join(f'position(body, {text}) > 0' for text in written)})"
    return condition
