"""Groups of records of runs on their way to disk: each whole, and once, whatever happens in between.

The tables of a group are written one after the other and its positions last. After a crash in between, the
start deletes what has no positions; after an error, the next group does. A reader sees a record once in
either case. On a server an insert that nobody waits for any more may still arrive: what was given up is
deleted again for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from trilens.model.errors import StoreError
from trilens.store.arrow_columns import arrow_table
from trilens.store.progress import load_progress, save_progress
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

    from trilens.model.run_commit import Position, RunCommit
    from trilens.store.engine import Engine
    from trilens.store.run_rows import RunTable

log = logging.getLogger(__name__)

BULKY: Final = (STEPS, BATCHES, SAMPLES, ARTIFACTS)  # what grows with every step of every rank
SMALL: Final = (CURVES, SHARES, CHECKPOINTS, VALIDATIONS, NOTES)
_GROUPED: Final = (*BULKY, *SMALL)
_GIVEN_UP: Final = "a group of run records that was given up"  # in progress, by its number
_LATE_S: Final = 3_600.0  # so long may an insert be on its way that nobody waits for
_LOOK_S: Final = 10.0


class _Failed(NamedTuple):
    stamp: int
    before: list[Position]


class _GivenUp(NamedTuple):
    """Groups, by the first and the last number that they may have."""

    first: int
    last: int
    tables: tuple[RunTable, ...]  # that may still get rows of them
    until_s: float


class RunCommits:
    """Thread-safe: one group is written at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._last = _last_commit(engine)
        self._failed: _Failed | None = None  # the group of which some tables may have rows
        self._given_up: list[_GivenUp] = []
        self._look_at_s = 0.0
        self._undo_again()
        self._undo_interrupted()
        if engine.options.may_write is not None:
            self._fence_off()

    def write(self, commit: RunCommit) -> None:
        """On disk on return. After a StoreError nothing of it counts, and it may be written again."""
        tables = as_tables(commit)
        with self._lock:
            self._undo_failed()
            self._delete_late()
            stamp = self._next_stamp()
            self._failed = _Failed(stamp, commit.before)
            try:
                for table, rows in tables:
                    self._engine.insert_arrow(table.name, _stamped(table, rows, stamp))
            except StoreError:
                # What went wrong may have been the answer only.
                if not _count(self._engine, POSITIONS, f"commit = {stamp}"):
                    raise
            self._failed = None

    def delete_late(self) -> None:
        """What arrived after it was given up; before each group, and from time to time without one."""
        with self._lock:
            self._delete_late()

    def _next_stamp(self) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return self._last

    def _fence_off(self) -> None:
        """What the server that worked before this one had on its way: it acknowledges nothing any more."""
        first, self._last = self._last + 1, max(self._last, time.time_ns() // 1000)
        self._give_up(first, self._last, (*_GROUPED, POSITIONS))

    def _undo_again(self) -> None:
        """Of the group that was given up last: a crash may have come in between, or rows after it. Where
        its positions stand, it counts, for nothing of it was deleted yet."""
        stamp = load_progress(self._engine, _GIVEN_UP)
        if stamp is None:
            return
        standing = f"SELECT count() AS n FROM {POSITIONS.name} FINAL WHERE commit = {stamp}"
        if not self._engine.query_arrow(standing)["n"][0].as_py():
            for table in _GROUPED:
                _delete(self._engine, table, f"commit = {stamp}")
            self._give_up(stamp, stamp, _GROUPED)

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
        self._failed = _Failed(found["last"], [])
        self._undo_failed()

    def _undo_failed(self) -> None:
        """Before the next group, so that no later one makes it look finished. Its positions may be there, or
        come: where its writers stood before is written over them first, or a crash would leave these."""
        if self._failed is None:
            return
        stamp, before = self._failed
        if before:
            save_progress(self._engine, _GIVEN_UP, stamp)
            rows = arrow_table(POSITIONS.schema, map(position_row, before))
            self._engine.insert_arrow(POSITIONS.name, _stamped(POSITIONS, rows, self._next_stamp()))
        for table in _GROUPED:
            _delete(self._engine, table, f"commit = {stamp}")
        self._give_up(stamp, stamp, _GROUPED)
        self._failed = None

    def _give_up(self, first: int, last: int, tables: tuple[RunTable, ...]) -> None:
        self._given_up.append(_GivenUp(first, last, tables, time.monotonic() + _LATE_S))

    def _delete_late(self) -> None:
        now_s = time.monotonic()
        if not self._given_up or now_s < self._look_at_s:
            return
        self._look_at_s = now_s + _LOOK_S
        try:
            for table in (*_GROUPED, POSITIONS):
                spans = [(one.first, one.last) for one in self._given_up if table in one.tables]
                if spans:
                    _delete(self._engine, table, " OR ".join(f"commit BETWEEN {a} AND {b}" for a, b in spans))
        except StoreError as e:
            log.warning("whether records came late is looked at again", extra={"error": str(e)})
        else:
            self._given_up = [one for one in self._given_up if now_s < one.until_s]


def as_tables(commit: RunCommit) -> list[tuple[RunTable, pa.Table]]:
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
