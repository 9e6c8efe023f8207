"""Parts of tables that did not read back and lie aside, for /readyz and the log.

At start the engine itself moves a torn part (a missing or cut-off file) into its `detached` folder, and goes
on without it; bytes that went bad inside a file show when they are read, and `Engine.query_arrow` then does
the same. Nothing is deleted: whoever wants to try a repair finds the part where `path` says.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from trilens.store import sql
from trilens.store.engine import UNAVAILABLE_NODES
from trilens.store.schema import DAY_MS

if TYPE_CHECKING:
    from trilens.store.engine import Engine


@dataclass(frozen=True, slots=True)
class Damage:
    """One part that is not served. None means that the part no longer says."""

    table: str
    part: str
    path: str
    bytes_on_disk: int
    rows: int | None
    from_ms: int | None
    to_ms: int | None

    def __str__(self) -> str:
        rows = "an unknown number of" if self.rows is None else f"{self.rows:,}"
        span = ""
        if self.from_ms is not None and self.to_ms is not None:
            span = f" between {_utc(self.from_ms)} and {_utc(self.to_ms)}"
        return f"table {self.table} lost {rows} rows{span}: part {self.part} is damaged, see {self.path}"


def find_damage(engine: Engine) -> list[Damage]:
    """Every part that lies aside, oldest name first. Cheap enough to ask on every /readyz.

    On a cluster a replica has what broke from another one: what no replica has any more is lost.
    """
    if engine.cluster is not None:
        return _lost(engine)
    found = engine.query_arrow(
        "SELECT table, name, partition_id, path, bytes_on_disk FROM system.detached_parts "
        "WHERE database = currentDatabase() ORDER BY table, partition_id, name"
    )
    return [_damage(engine, row) for row in found.to_pylist()]


def _lost(engine: Engine) -> list[Damage]:
    found = engine.query_arrow(
        f"SELECT table, max(lost_part_count) AS parts FROM {engine.system_table('replicas')} "
        f"WHERE database = {sql.text(engine.database)} GROUP BY table HAVING parts > 0 ORDER BY table",
        settings=UNAVAILABLE_NODES,
    ).to_pylist()
    return [
        Damage(row["table"], f"of {row['parts']} that no replica has", "system.replicas", 0, None, None, None)
        for row in found
    ]


def _damage(engine: Engine, row: dict[str, str]) -> Damage:
    directory = Path(row["path"])
    rows, span = None, None
    if engine.embedded:  # a server's files are not ours to read
        rows, span = _rows(directory), _span(directory)
    from_ms, to_ms = span or _partition_span(row["partition_id"])
    return Damage(
        row["table"], row["name"], row["path"], int(row["bytes_on_disk"] or 0), rows, from_ms, to_ms
    )


def _rows(directory: Path) -> int | None:
    try:
        return int((directory / "count.txt").read_text())
    except (OSError, ValueError):
        return None


def _span(directory: Path) -> tuple[int, int] | None:
    """The part's smallest and largest time, which the engine keeps as two little-endian Int64."""
    for name in ("minmax_t.idx", "minmax_end_t.idx"):
        try:
            low, high = struct.unpack("<qq", (directory / name).read_bytes())
        except (OSError, struct.error):
            continue
        return low, high
    return None


def _partition_span(partition: str) -> tuple[int | None, int | None]:
    """A day (20260131) or a month (202601), from the partition's name; tables without one say nothing."""
    try:
        if len(partition) == 8:
            begin = datetime.strptime(partition, "%Y%m%d").replace(tzinfo=UTC)
            return _ms(begin), _ms(begin) + DAY_MS
        if len(partition) == 6:
            begin = datetime.strptime(partition, "%Y%m").replace(tzinfo=UTC)
            return _ms(begin), _ms((begin + timedelta(days=32)).replace(day=1))
    except ValueError:
        pass
    return None, None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
