"""Which machines there were, and as what they were bought: kept, and read back for any span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.store.machine_rows import MACHINES, machine_of, machine_row

if TYPE_CHECKING:
    from trilens.model.machine import MachineInterval
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class MachineRecords:
    """Thread-safe. What is told can be read a moment later, and survives the process once it was written."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer

    def machine(self, interval: MachineInterval) -> None:
        self._writer.put(MACHINES, machine_row(interval))

    def unfinished(self) -> list[MachineInterval]:
        """Those that last."""
        return self._intervals("to_ms IS NULL", None)

    def during(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[MachineInterval]:
        """All that overlap the span, `to_ms` not included, by cluster, node and beginning."""
        return self._intervals(f"from_ms < {to_ms} AND (to_ms IS NULL OR to_ms > {from_ms})", guard)

    def clusters(self, *, guard: QueryGuard | None = None) -> list[str]:
        """Of all machines that are kept."""
        statement = f"SELECT DISTINCT cluster FROM {MACHINES.name} ORDER BY cluster"
        found: list[str] = self._engine.query_arrow(statement, guard=guard)["cluster"].to_pylist()
        return found

    def _intervals(self, condition: str, guard: QueryGuard | None) -> list[MachineInterval]:
        statement = (
            f"SELECT {', '.join(MACHINES.columns)} FROM {MACHINES.name} FINAL WHERE {condition} "
            "ORDER BY cluster, node, from_ms"
        )
        return [machine_of(row) for row in self._engine.query_arrow(statement, guard=guard).to_pylist()]
