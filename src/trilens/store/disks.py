"""How much room ClickHouse servers have, and how long disks take to keep something. The room of the embedded
engine is that of its directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.store.engine import UNAVAILABLE_NODES

if TYPE_CHECKING:
    from trilens.store.engine import Engine

_ENDLESS: Final = 1 << 60  # what a bucket says of itself


class StoreDisk(NamedTuple):
    host: str
    name: str
    free_bytes: int
    size_bytes: int


class DiskSyncs(NamedTuple):
    """How often an engine has waited for its disks to keep something since it was started, and how long."""

    host: str  # "" for the embedded engine
    times: int
    seconds: float


def find_disks(engine: Engine) -> tuple[StoreDisk, ...]:
    """Of all nodes that answer; those without an end are not among them."""
    if engine.embedded:
        return ()
    found = engine.query_arrow(
        "SELECT DISTINCT hostName() AS host, name, free_space, total_space "
        f"FROM {engine.system_table('disks')} WHERE total_space BETWEEN 1 AND {_ENDLESS} ORDER BY host, name",
        settings=UNAVAILABLE_NODES,
    )
    return tuple(StoreDisk(*row.values()) for row in found.to_pylist())


def find_syncs(engine: Engine) -> tuple[DiskSyncs, ...]:
    """Of all nodes that answer and have kept something."""
    host = "''" if engine.embedded else "hostName()"
    found = engine.query_arrow(
        f"SELECT {host} AS host, sumIf(value, event IN ('FileSync', 'DirectorySync')) AS times, "
        "sumIf(value, event IN ('FileSyncElapsedMicroseconds', 'DirectorySyncElapsedMicroseconds')) / 1e6 "
        f"AS seconds FROM {engine.system_table('events')} GROUP BY host HAVING times > 0 ORDER BY host",
        settings=UNAVAILABLE_NODES,
    )
    return tuple(DiskSyncs(*row.values()) for row in found.to_pylist())
