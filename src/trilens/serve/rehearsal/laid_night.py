"""A kept night, laid into a store so that it ends now.

It is moved by whole hours of the clock, so that the hours of its ledger stay what they are. Times are moved
by the engine itself while it reads the files: columns of times, sample values that are times, and the times
within findings and incidents. What came after the end is left out.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.evidence.flight import DUMPS
from trilens.model.ledger import HOUR_MS
from trilens.model.series import STALE_NAN
from trilens.serve.rehearsal.empty_store import lay_empty
from trilens.serve.rehearsal.kept_night import RECENT
from trilens.serve.rehearsal.moved_times import move_recording, move_times
from trilens.serve.rehearsal.night_tables import STANDING, TABLES, Shift, columns_of
from trilens.store import sql
from trilens.store.activity import save_activity_until
from trilens.store.engine import Engine
from trilens.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from trilens.serve.rehearsal.kept_night import Moment, Night
    from trilens.store.store import Store

_SAMPLES: Final = "samples"
_REST: Final = (_SAMPLES, "run_batches", "run_samples")
_SHOWN_MS: Final = 300_000  # PromQL shows the last sample of a series for so long


class Laying(NamedTuple):
    """A night, and when it is to end."""

    folder: Path
    night: Night
    now_us: int

    @property
    def by_ms(self) -> int:
        """Whole hours, so that it ends within its last one."""
        last_ms = self.night.moments[0].at_ms
        return (self.now_us // 1000 - last_ms) // HOUR_MS * HOUR_MS

    @property
    def moment(self) -> Moment:
        """In the night's own time, the last before the end."""
        end_ms = self.now_us // 1000 - self.by_ms
        return next(one for one in reversed(self.night.moments) if one.at_ms <= end_ms)

    @property
    def shift(self) -> Shift:
        return Shift(
            self.by_ms,
            self.now_us - self.night.written_us,
            self.now_us // 1000 - self.by_ms,
            self.moment.upto_us,
        )


def lay(laying: Laying, data_dir: Path) -> None:
    """Into a new store, all but what can wait: `lay_rest` is for that."""
    lay_empty(laying.folder, data_dir)
    with Engine.open(data_dir) as engine:
        migrate(engine)
        types = columns_of(engine)
        for table in TABLES:
            if table not in _REST:
                _lay_table(engine, laying, table, types[table])
        _lay_table(engine, laying, _SAMPLES, types[_SAMPLES], RECENT)
        _end_recorded(engine, laying)
        save_activity_until(engine, laying.night.recent_ms + laying.by_ms)


def lay_rest(laying: Laying, store: Store) -> None:
    """Into the same store while it is used: samples of the first hours, and what was in which batch."""
    types = columns_of(store.engine)

    def samples(engine: Engine) -> None:
        _lay_table(engine, laying, _SAMPLES, types[_SAMPLES])

    store.put_past(samples, laying.night.recent_ms + laying.by_ms)
    for table in _REST:
        if table != _SAMPLES:
            _lay_table(store.engine, laying, table, types[table])


def _lay_table(engine: Engine, laying: Laying, table: str, types: Mapping[str, str], kind: str = "") -> None:
    shift, columns = laying.shift, TABLES[table]
    folder = laying.folder / laying.moment.folder if table in STANDING else laying.folder
    file = sql.text(str(folder / f"{table}{kind}.native.zst"))
    names = ", ".join(sql.identifier(name) for name in types)
    typed = sql.text(", ".join(f"{sql.identifier(name)} {kind}" for name, kind in types.items()))
    moved = ", ".join(shift.column(table, name) for name in types)
    there = f"SELECT * FROM file({file}, 'Native', {typed}) WHERE {shift.where(table)}"  # noqa: S608
    source = f"SELECT {moved} FROM ({there})"  # noqa: S608 - our own names
    if not columns.texts and not columns.recordings:
        engine.command(f"INSERT INTO {sql.identifier(table)} ({names}) {source}")
        return
    rows = engine.query_arrow(source)
    for name in columns.texts:
        rows = _with(rows, name, [move_times(text, shift.by_ms) for text in rows[name].to_pylist()])
    if columns.recordings:
        told = zip(rows["kind"].to_pylist(), rows[columns.recordings].to_pylist(), strict=True)
        moved_too = [move_recording(one, shift.by_ms) if kind == DUMPS else one for kind, one in told]
        rows = _with(rows, columns.recordings, moved_too)
    engine.insert_arrow(table, rows)


def _with(rows: pa.Table, name: str, texts: list[str]) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, [texts])


def _end_recorded(engine: Engine, laying: Laying) -> None:
    """What rules recorded: from now on a server records it, with what it knows of it."""
    end_ms = laying.now_us // 1000
    (bits,) = struct.unpack("<Q", struct.pack("<d", STALE_NAN))
    engine.command(
        f"INSERT INTO samples (metric, series, t, v) SELECT metric, series, {end_ms}, "  # noqa: S608
        f"reinterpretAsFloat64(toUInt64({bits})) FROM samples WHERE t > {end_ms - _SHOWN_MS} "
        f"AND t < {end_ms} AND metric LIKE '%:%' GROUP BY metric, series"
    )
