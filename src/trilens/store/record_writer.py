"""Writes records behind the back of whoever tells them: telling never waits for the disk."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from trilens.model.errors import StoreError
from trilens.store.records import RECORD_TABLES, newest_version

if TYPE_CHECKING:
    from trilens.store.engine import Engine
    from trilens.store.workload_rows import Row, Table

log = logging.getLogger(__name__)

_GATHER_S: Final = 0.1  # what is told together is written together
_FIRST_RETRY_S: Final = 0.5
_LAST_RETRY_S: Final = 30.0
_TRIES_AT_END: Final = 3

_Pending = dict["Table", dict[tuple[object, ...], "Row"]]


class RecordWriter:
    """Thread-safe. A row that is told again before it is written takes the place of the first one, so what
    waits for a disk that is full grows with what there is, not with how often it changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pending: _Pending = {}
        self._told = threading.Condition()
        self._closing = threading.Event()
        self._version = self._written = newest_version(engine, RECORD_TABLES)
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._work, name="store-records", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        """Why what was told is not on disk yet, while that is so."""
        return self._trouble

    @property
    def written(self) -> int:
        """The version up to which all that was told is on disk."""
        return self._written

    def put(self, table: Table, row: Row) -> int:
        """Its version."""
        key = tuple(row[name] for name in table.key)
        with self._told:
            # Later rows win, also over those of an earlier process whose clock was ahead.
            self._version = max(self._version + 1, time.time_ns())
            self._pending.setdefault(table, {})[key] = {**row, "version": self._version}
            self._told.notify_all()
            return self._version

    def settled(self, timeout_s: float) -> bool:
        """Waits until all that was told before is on disk, for so long at the most; whether it is."""
        with self._told:
            told = self._version
            return self._told.wait_for(lambda: self._written >= told, timeout_s)

    def close(self) -> None:
        """Writes what is left. Safe to call twice."""
        self._closing.set()
        with self._told:
            self._told.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._told:
                self._told.wait_for(lambda: self._pending or self._closing.is_set())
            self._closing.wait(_GATHER_S)
            with self._told:
                pending, self._pending = self._pending, {}
                upto = self._version
            if pending:
                self._write_until_done(pending)
                with self._told:
                    self._written = upto
                    self._told.notify_all()
            elif self._closing.is_set():
                return

    def _write_until_done(self, pending: _Pending) -> None:
        wait_s, tries_at_end = _FIRST_RETRY_S, 0
        while True:
            try:
                self._write(pending)
            except StoreError as e:
                if self._trouble is None:
                    log.warning("records are not written, and will be tried again", extra={"error": str(e)})
                self._trouble = str(e)
            except Exception as e:  # a thread that ends would keep all records, and say nothing
                if self._trouble is None:
                    log.error("records are not written, by a defect", exc_info=e)
                self._trouble = f"by a defect: {e!r}"
            else:
                self._trouble = None
                return
            if self._closing.is_set():
                tries_at_end += 1
                if tries_at_end == _TRIES_AT_END:
                    lost = sum(map(len, pending.values()))
                    log.error("records are lost at the end", extra={"rows": lost, "error": self._trouble})
                    return
                time.sleep(_FIRST_RETRY_S)
            else:
                self._closing.wait(wait_s)
                wait_s = min(wait_s * 2, _LAST_RETRY_S)

    def _write(self, pending: _Pending) -> None:
        """Writing a row twice is harmless, so all is tried again when one table fails."""
        for table, rows in pending.items():
            self._engine.insert_arrow(table.name, _encoded(table, [*rows.values()]))


def _encoded(table: Table, rows: list[Row]) -> pa.Table:
    """Without those that do not fit the table: a label may say that this is attempt 10^30."""
    try:
        return pa.Table.from_pylist(rows, table.schema)
    except (ValueError, TypeError, OverflowError) as e:
        if len(rows) == 1:
            log.error("a record cannot be kept", extra={"table": table.name, "row": rows[0], "error": str(e)})
            return table.schema.empty_table()
        return pa.concat_tables([_encoded(table, [row]) for row in rows])
