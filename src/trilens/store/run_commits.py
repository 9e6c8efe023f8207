"""Groups of records of runs on their way to disk: each whole, and once, whatever happens in between.

The tables of a group are written one after the other and its positions last. After a crash in between, the
start deletes what has no positions; after an error, the next group does. A reader sees a record once in
either case.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from trilens.model.errors import StoreError
from trilens.store.arrow_columns import arrow_table
from trilens.store.run_rows import (
    ARTIFACTS,
    BATCHES,
    CHECKPOINTS,
    NOTES,
    POSITIONS,
    PROCESSES,
    RUNS,
    STEPS,
    VALIDATIONS,
    artifact_row,
    batch_row,
    checkpoint_row,
    facts_row,
    note_row,
    position_row,
    process_row,
    step_row,
    validation_row,
)
from trilens.store.run_sums import CURVES, SAMPLES, SHARES, curve_rows, sample_rows, share_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.run_commit import RunCommit
    from trilens.store.engine import Engine
    from trilens.store.run_rows import RunTable

log = logging.getLogger(__name__)

BULKY: Final = (STEPS, BATCHES, SAMPLES, ARTIFACTS)  # what grows with every step of every rank
SMALL: Final = (CURVES, SHARES, CHECKPOINTS, VALIDATIONS, NOTES)
_GROUPED: Final = (*BULKY, *SMALL)


class RunCommits:
    """Thread-safe: one group is written at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._last = _last_commit(engine)
        self._failed: int | None = None  # the group of which some tables may have rows
        self._undo_interrupted()

    def write(self, commit: RunCommit) -> None:
        """On disk on return. After a StoreError nothing of it counts, and it may be written again."""
        tables = _arrow(commit)
        with self._lock:
            self._undo_failed()
            stamp = self._last = max(self._last + 1, time.time_ns() // 1000)
            self._failed = stamp
            try:
                for table, rows in tables:
                    self._engine.insert_arrow(table.name, _stamped(table, rows, stamp))
            except StoreError:
                # What went wrong may have been the answer only.
                if not _count(self._engine, POSITIONS, f"commit = {stamp}"):
                    raise
            self._failed = None

    def _undo_interrupted(self) -> None:
        """Of the group that a crash left without positions. There can be one; were there more, positions
        would be missing, and what they are of must not go too."""
        later = " UNION ALL ".join(
            f"SELECT commit FROM {table.name} WHERE commit > {self._last}" for table in _GROUPED
        )
        found = self._engine.query_arrow(
            f"SELECT min(commit) AS first, max(commit) AS last, count() AS n FROM ({later})"
        ).to_pylist()[0]
        if not found["n"]:
            return
        if found["first"] != found["last"]:
            log.error("positions of writers are missing: what they send again may be there twice")
            self._last = found["last"]
            return
        self._failed = found["last"]
        self._undo_failed()

    def _undo_failed(self) -> None:
        """Before the next group, so that no later one makes it look finished."""
        if self._failed is not None:
            for table in _GROUPED:
                _delete(self._engine, table, f"commit = {self._failed}")
            self._failed = None


def _arrow(commit: RunCommit) -> list[tuple[RunTable, pa.Table]]:
    made: list[tuple[RunTable, Iterable[tuple[object, ...]]]] = [
        (RUNS, map(facts_row, commit.facts)),
        (PROCESSES, map(process_row, commit.processes)),
        (STEPS, map(step_row, commit.steps)),
        (CURVES, curve_rows(commit.steps)),
        (BATCHES, map(batch_row, commit.batches)),
        (SHARES, share_rows(commit.batches)),
        (SAMPLES, sample_rows(commit.batches)),
        (CHECKPOINTS, map(checkpoint_row, commit.checkpoints)),
        (VALIDATIONS, map(validation_row, commit.validations)),
        (NOTES, map(note_row, commit.notes)),
        (ARTIFACTS, map(artifact_row, commit.artifacts)),
        (POSITIONS, map(position_row, commit.positions)),
    ]
    return [(table, arrow_table(table.schema, rows)) for table, rows in made]


def _stamped(table: RunTable, rows: pa.Table, stamp: int) -> pa.Table:
    # Versions of records are nanoseconds in every table.
    value = stamp * 1000 if table.stamp == "version" else stamp
    return rows.append_column(table.stamp, pa.array([value] * rows.num_rows, pa.int64()))


def _last_commit(engine: Engine) -> int:
    found = engine.query_arrow(f"SELECT max(commit) AS last FROM {POSITIONS.name}")
    return int(found["last"][0].as_py() or 0)


def _delete(engine: Engine, table: RunTable, condition: str) -> None:
    if rows := _count(engine, table, condition):
        log.info("an insert that was interrupted is undone", extra={"table": table.name, "rows": rows})
        engine.command(f"DELETE FROM {table.name} WHERE {condition}")


def _count(engine: Engine, table: RunTable, condition: str) -> int:
    found = engine.query_arrow(f"SELECT count() AS n FROM {table.name} WHERE {condition}")
    return int(found["n"][0].as_py())
