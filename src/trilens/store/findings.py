"""What detectors found: kept, and read back for any span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.store import sql
from trilens.store.finding_rows import FINDINGS, finding_of, finding_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trilens.model.finding import FindingInterval, FindingKind
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class FindingRecords:
    """Thread-safe. What is told can be read a moment later, and survives the process once it was written; an
    interval told again replaces what was told."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer

    def put(self, intervals: Sequence[FindingInterval]) -> None:
        for interval in intervals:
            self._writer.put(FINDINGS, finding_row(interval))

    def during(
        self,
        from_ms: int,
        to_ms: int,
        *,
        kinds: Collection[FindingKind] = (),
        guard: QueryGuard | None = None,
    ) -> list[FindingInterval]:
        """Those that lasted at some time of it, both ends included, in the order in which they were detected;
        of some kinds, or of all."""
        terms = [f"onset_ms <= {to_ms}", f"(to_ms IS NULL OR to_ms >= {from_ms})"]
        if kinds:
            terms.append(f"kind IN {sql.text_list(sorted(kind.value for kind in kinds))}")
        return self._intervals(terms, guard)

    def open(self) -> list[FindingInterval]:
        """Those that last, as far as was told."""
        return self._intervals(["to_ms IS NULL"], None)

    def _intervals(self, terms: Sequence[str], guard: QueryGuard | None) -> list[FindingInterval]:
        statement = (
            f"SELECT cause, subject, detected_ms, seen_ms, to_ms, body FROM {FINDINGS.name} FINAL "
            f"WHERE {' AND '.join(terms)} ORDER BY detected_ms, detector, cause, subject"
        )
        return [finding_of(row) for row in self._engine.query_arrow(statement, guard=guard).to_pylist()]
