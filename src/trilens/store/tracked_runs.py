"""Runs of experiment trackers: kept, with how far each was read, and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.store import sql
from trilens.store.remembered_reads import RememberedReads
from trilens.store.tracked_run_rows import TRACKED_RUNS, tracked_run_of, tracked_run_row

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.model.tracked_run import TrackedRun
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class TrackedRunRecords:
    """Thread-safe. Telling a run again replaces what was told."""

    def __init__(self, engine: Engine, writer: RecordWriter, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._writer = writer
        self._remembered = reads or RememberedReads(engine)

    def run(self, run: TrackedRun, cursor: str) -> None:
        self._writer.put(TRACKED_RUNS, tracked_run_row(run, cursor))

    def cursors(self, system: str, where: str) -> dict[str, str]:
        """How far the runs of a tracker were read."""
        found = self._engine.query_arrow(
            f"SELECT run, cursor FROM {TRACKED_RUNS.name} FINAL "
            f"WHERE system = {sql.text(system)} AND place = {sql.text(where)}"
        )
        return {row["run"]: row["cursor"] for row in found.to_pylist()}

    def runs(
        self,
        *,
        experiment: str | None = None,
        system: str | None = None,
        where: str | None = None,
        run: str | None = None,
        limit: int = 1_000,
        guard: QueryGuard | None = None,
    ) -> list[TrackedRun]:
        """The latest first."""
        wanted = {"experiment": experiment, "system": system, "place": where, "run": run}
        terms = [f"{column} = {sql.text(value)}" for column, value in wanted.items() if value is not None]
        statement = (
            f"SELECT {', '.join(TRACKED_RUNS.columns)} FROM {TRACKED_RUNS.name} FINAL "
            f"WHERE {' AND '.join(terms) or '1'} "
            f"ORDER BY from_ms DESC NULLS LAST, system, place, run LIMIT {limit}"
        )
        return self._remembered.of(TRACKED_RUNS.name, statement, tracked_run_of, guard)
