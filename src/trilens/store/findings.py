"""What detectors found: kept, and read back for any span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.store import sql
from trilens.store.finding_rows import FINDINGS, finding_of, finding_row
from trilens.store.remembered_reads import RememberedReads, hours_around

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trilens.model.finding import FindingInterval, FindingKind
    from trilens.model.query import QueryGuard
    from trilens.model.workload import GpuUuid, WorkloadKey
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class FindingRecords:
    """Thread-safe. What is told can be read a moment later, and survives the process once it was written; an
    interval told again replaces what was told."""

    def __init__(self, engine: Engine, writer: RecordWriter, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._writer = writer
        self._remembered = reads or RememberedReads(engine)

    def put(self, intervals: Sequence[FindingInterval]) -> None:
        for interval in intervals:
            self._writer.put(FINDINGS, finding_row(interval))

    def during(
        self,
        from_ms: int,
        to_ms: int,
        *,
        kinds: Collection[FindingKind] = (),
        causes: Collection[str] = (),
        naming: WorkloadKey | GpuUuid | None = None,
        guard: QueryGuard | None = None,
    ) -> list[FindingInterval]:
        """Those that lasted at some time of it, both ends included, in the order in which they were detected;
        of some kinds and causes, or of all. `naming` leaves out those that do not name it."""
        first_ms, last_ms = hours_around(from_ms, to_ms)
        terms = [f"onset_ms <= {last_ms}", f"(to_ms IS NULL OR to_ms >= {first_ms})"]
        if kinds:
            terms.append(f"kind IN {sql.text_list(sorted(kind.value for kind in kinds))}")
        if causes:
            terms.append(f"cause IN {sql.text_list(sorted(causes))}")
        if naming is not None:  # a fleet in trouble has thousands, and to decode one takes longer
            terms.append(f"position(body, {sql.text(msgspec.json.encode(naming).decode())}) > 0")
        return [
            one
            for one in self._intervals(terms, guard)
            if one.finding.onset_ms <= to_ms and (one.ended_ms is None or one.ended_ms >= from_ms)
        ]

    def open(self) -> list[FindingInterval]:
        """Those that last, as far as was told."""
        return self._intervals(["to_ms IS NULL"], None)

    def _intervals(self, terms: Sequence[str], guard: QueryGuard | None) -> list[FindingInterval]:
        statement = (
            f"SELECT cause, subject, detected_ms, seen_ms, to_ms, body FROM {FINDINGS.name} FINAL "
            f"WHERE {' AND '.join(terms)} ORDER BY detected_ms, detector, cause, subject"
        )
        return self._remembered.of(FINDINGS.name, statement, finding_of, guard)
