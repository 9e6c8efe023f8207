"""A night that was watched once, kept as files: the tables of its store, and for its last hour, every few
minutes, how things stood. Whenever it is laid, it ends at one of these moments (laid_night.py).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilens.serve.rehearsal.empty_store import keep_empty
from trilens.serve.rehearsal.night_tables import STANDING, TABLES, columns_of
from trilens.store import sql
from trilens.store.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST: Final = "night.json"
TOLD: Final = "told.json"
RECENT: Final = ".recent"  # samples in a file of their own
_RECENT_MS: Final = 4 * 3_600_000  # before the end
_FINE_MS: Final = 2 * 3_600_000  # what is older is shown less finely
_COARSE_MS: Final = 120_000
_ACTIVITY: Final = "SELECT series, min(t) AS first_t, max(t) AS last_t, argMax(v, t) AS last_v FROM samples"


class Moment(msgspec.Struct, frozen=True):
    """How things stood then lies in a folder of its own. What ranks told had been written until `upto_us`."""

    at_ms: int
    upto_us: int

    @property
    def folder(self) -> str:
        return f"at-{self.at_ms}"


class Night(msgspec.Struct, frozen=True):
    """What lies beside the tables. It begins with an hour of the clock, and so do the hours of its ledger."""

    begin_ms: int
    written_us: int  # by the clock on the wall
    moments: tuple[Moment, ...]  # the earliest first
    key: str = ""  # night_sources.py says of which it can be laid,
    made_by: str = ""  # and of which it is what would come out today

    @property
    def recent_ms(self) -> int:
        """From then on samples lie in a file of their own."""
        return self.moments[-1].at_ms - _RECENT_MS


def keep_moment(engine: Engine, folder: Path, moment: Moment, told: Mapping[str, Any]) -> None:
    """Of a store whose records are on disk. `told` is how far each rank has told of itself."""
    place = folder / moment.folder
    place.mkdir(parents=True, exist_ok=True)
    _copy(engine, place, dict.fromkeys(STANDING, "true"))
    (place / TOLD).write_text(json.dumps({"told": told}), encoding="utf-8")


def keep(data_dir: Path, folder: Path, night: Night) -> None:
    """Of a store that nobody has open. The night itself is written last: without it the folder is none."""
    on_grid = f"(t - {night.begin_ms}) % {_COARSE_MS} = 0"
    shown = f"(t > {night.moments[-1].at_ms - _FINE_MS} OR {on_grid} OR isNaN(v))"
    wanted = {table: "true" for table in TABLES if table not in (*STANDING, "activity")}
    wanted["samples"] = f"t <= {night.recent_ms} AND {shown}"
    with Engine.open(data_dir) as engine:
        _copy(engine, folder, wanted)
        _copy(engine, folder, {"samples": f"t > {night.recent_ms} AND {shown}"}, RECENT)
        _write(
            engine,
            folder / "activity.native.zst",
            f"{_ACTIVITY} WHERE t <= {night.recent_ms} GROUP BY series",
        )
    keep_empty(folder)
    (folder / MANIFEST).write_bytes(msgspec.json.encode(night))


def kept(folder: Path) -> Night | None:
    """What is kept there, if anything is."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Night)
    except (OSError, msgspec.DecodeError):
        return None


def _copy(engine: Engine, folder: Path, wanted: Mapping[str, str], kind: str = "") -> None:
    """Tables with a condition each, in the order of their keys: so they take the least space."""
    for table, columns in columns_of(engine).items():
        if table not in wanted:
            continue
        names = ", ".join(sql.identifier(name) for name in columns)
        final = " FINAL" if table in STANDING else ""
        source = f"SELECT {names} FROM {sql.identifier(table)}{final} WHERE {wanted[table]}"  # noqa: S608
        _write(engine, folder / f"{table}{kind}.native.zst", source)


def _write(engine: Engine, file: Path, source: str) -> None:
    file.unlink(missing_ok=True)
    engine.command(f"INSERT INTO FUNCTION file({sql.text(str(file))}, 'Native') {source}")
