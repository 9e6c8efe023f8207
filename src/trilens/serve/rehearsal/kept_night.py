"""A night that was watched once, kept as files, and laid into a store so that it ends at any moment.

Times are moved by the engine itself while it reads the files: columns of times, sample values that are times,
and the times within findings and incidents. Hours of the ledger are not kept: they begin with hours of the
clock, and are booked anew from what is here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilens.store import sql
from trilens.store.engine import Engine
from trilens.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Of each table the columns that are times of the night, in milliseconds.
_MOVED: Final[dict[str, tuple[str, ...]]] = {
    "samples": ("t",),
    "series": ("first_seen", "last_seen"),
    "metadata": (),
    "workloads": ("created_ms",),
    "memberships": ("from_ms", "to_ms"),
    "phases": ("from_ms", "to_ms"),
    "gpus": ("from_ms", "to_ms"),
    "gpu_bindings": ("from_ms", "to_ms"),
    "events": ("t_ms",),
    "machines": ("from_ms", "to_ms"),
    "workload_owners": ("from_ms",),
    "findings": ("detected_ms", "onset_ms", "seen_ms", "to_ms"),
    "incidents": ("onset_ms", "to_ms"),
    "runs": ("created_ms",),
    "run_processes": ("started_ms", "process_started_ms", "heard_ms", "ended_ms"),
    "run_positions": (),
    "run_steps": (),
    "run_curves": (),
    "run_batches": (),
    "run_shares": (),
    "run_samples": (),
    "run_checkpoints": ("start_ms",),
    "run_validations": ("t_ms",),
    "run_notes": ("t_ms",),
    "run_artifacts": ("t_ms",),
}
_MOVED_US: Final = {"run_steps": ("start_us",), "run_curves": ("t_us",)}
_TEXTS: Final = {"findings": ("body",), "incidents": ("id", "body"), "run_positions": ("spans",)}
_WRITTEN: Final = ("commit",)  # when a row was written, by the clock on the wall
_TIME_METRICS: Final = "(timestamp|created|_time$|_time_seconds$|onset|ALERTS_FOR_STATE)"
_TIMES_S: Final = (1.5e9, 2.5e9)
_FINE_MS: Final = 3_600_000  # before the end; what is older is shown less finely
_COARSE_MS: Final = 120_000
_TIME_IN_TEXT: Final = re.compile(
    r'"lost_quanta":\d+'
    r"|(?<![\d.])1[5-9]\d{11}(?![\d.])|(?<![\d.])1[5-9]\d{14}(?![\d.])"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=[.\dZ])"
    r"|(?<!\d)\d{8}-\d{4}(?=-[0-9a-f]{4}\b)"
)
MANIFEST: Final = "night.json"


class Night(msgspec.Struct, frozen=True):
    """What lies beside the tables. `told` is how far each rank has told of itself."""

    begin_ms: int
    end_ms: int
    written_us: int  # by the clock on the wall
    told: dict[str, dict[str, Any]]


def keep(data_dir: Path, folder: Path, night: Night) -> None:
    """Of a store that nobody has open. The night itself is written last: without it the folder is none."""
    folder.mkdir(parents=True, exist_ok=True)
    with Engine.open(data_dir) as engine:
        for table, columns in _columns(engine).items():
            file = folder / f"{table}.native.zst"
            file.unlink(missing_ok=True)
            names = ", ".join(sql.identifier(name) for name in columns)
            where = f" WHERE {_kept_samples(night)}" if table == "samples" else ""
            source = f"SELECT {names} FROM {sql.identifier(table)}{where}"  # noqa: S608 - our own names
            engine.command(f"INSERT INTO FUNCTION file({sql.text(str(file))}, 'Native') {source}")
    (folder / MANIFEST).write_bytes(msgspec.json.encode(night))


def kept(folder: Path) -> Night | None:
    """What is kept there, if anything is."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Night)
    except (OSError, msgspec.DecodeError):
        return None


def lay(folder: Path, night: Night, data_dir: Path, end_ms: int, now_us: int) -> None:
    """Into a new store, as if the night ended at `end_ms` and all of it had just been written."""
    by_ms, by_us = end_ms - night.end_ms, now_us - night.written_us
    with Engine.open(data_dir) as engine:
        migrate(engine)
        for table, columns in _columns(engine).items():
            file = sql.text(str(folder / f"{table}.native.zst"))
            names = ", ".join(sql.identifier(name) for name in columns)
            moved = ", ".join(_moved(table, name, by_ms, by_us) for name in columns)
            types = ", ".join(f"{sql.identifier(name)} {kind}" for name, kind in columns.items())
            source = f"SELECT {moved} FROM file({file}, 'Native', {sql.text(types)})"  # noqa: S608
            if table not in _TEXTS:
                engine.command(f"INSERT INTO {sql.identifier(table)} ({names}) {source}")
                continue
            rows = engine.query_arrow(source)
            for name in _TEXTS[table]:
                texts = [move_times(text, by_ms) for text in rows[name].to_pylist()]
                rows = rows.set_column(rows.column_names.index(name), name, [texts])
            engine.insert_arrow(table, rows)


def move_times(text: str, by_ms: int) -> str:
    """All times in a text: milliseconds and microseconds, ISO, and those of which ids of incidents begin."""

    def moved(found: re.Match[str]) -> str:
        time = found[0]
        if time.startswith('"'):
            return time  # money
        if time.isdigit():
            return str(int(time) + (by_ms if len(time) == 13 else 1000 * by_ms))
        form = "%Y-%m-%dT%H:%M:%S" if "T" in time else "%Y%m%d-%H%M"
        at = datetime.strptime(time, form).replace(tzinfo=UTC) + timedelta(milliseconds=by_ms)
        return at.strftime(form)

    return _TIME_IN_TEXT.sub(moved, text)


def _columns(engine: Engine) -> Mapping[str, Mapping[str, str]]:
    """Of each table, with their types: a file without rows does not say them."""
    found = engine.query_arrow(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() "
        "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY table, position"
    ).to_pylist()
    return {table: {row["name"]: row["type"] for row in found if row["table"] == table} for table in _MOVED}


def _kept_samples(night: Night) -> str:
    on_grid = f"(t - {night.begin_ms}) % {_COARSE_MS} = 0"
    return f"t > {night.end_ms - _FINE_MS} OR {on_grid} OR isNaN(v)"


def _moved(table: str, name: str, by_ms: int, by_us: int) -> str:
    column = sql.identifier(name)
    if name in _MOVED[table]:
        return f"{column} + {by_ms} AS {column}"
    if name in _MOVED_US.get(table, ()):
        return f"{column} + {1000 * by_ms} AS {column}"
    if name in _WRITTEN:
        return f"{column} + {by_us} AS {column}"
    if table == "samples" and name == "v":
        least, most = _TIMES_S
        is_time = f"match(metric, {sql.text(_TIME_METRICS)}) AND v > {least} AND v < {most}"
        return f"if({is_time}, v + {by_ms / 1000}, v) AS v"
    return column
