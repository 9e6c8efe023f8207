"""All tables of records, and how their rows expire."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trilens.store.access import ACCESS_TABLES
from trilens.store.event_rows import EVENTS
from trilens.store.finding_rows import FINDING_TABLES
from trilens.store.fixes import FIXES
from trilens.store.gpu_rows import GPU_TABLES
from trilens.store.machine_rows import MACHINES
from trilens.store.tracked_run_rows import TRACKED_RUNS
from trilens.store.workload_rows import KEY_IN, MEMBERSHIPS, OWNERS, PHASES, TABLES, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.store.engine import Engine
    from trilens.store.workload_rows import Table

log = logging.getLogger(__name__)

RECORD_TABLES: Final = (
    *TABLES,
    *GPU_TABLES,
    MACHINES,
    EVENTS,
    TRACKED_RUNS,
    *FINDING_TABLES,
    FIXES,
    *ACCESS_TABLES,
)


def newest_version(engine: Engine, tables: Iterable[Table]) -> int:
    """Of rows of one key the later wins, also over one of an earlier process whose clock was ahead."""
    parts = " UNION ALL ".join(f"SELECT max(version) AS version FROM {table.name}" for table in tables)
    found = engine.query_arrow(f"SELECT max(version) AS version FROM ({parts})")
    return int(found["version"][0].as_py() or 0)


def delete_expired_records(engine: Engine, before_ms: int) -> int:
    """Delete what was over before then, and workloads of which nothing else is left; returns how many rows.

    What lasts stays, however long ago it began.
    """
    deleted = sum(delete_over(engine, table, before_ms) for table in RECORD_TABLES)
    unnamed = " AND ".join(
        f"{KEY_IN[WORKLOADS.name]} NOT IN (SELECT {KEY_IN[table.name]} FROM {table.name})"
        for table in (MEMBERSHIPS, PHASES)
    )
    # A version is the time of telling in nanoseconds: one told lately may have intervals yet to be written.
    told_before = f"version < {int(before_ms) * 1_000_000}"
    deleted += _delete(engine, WORKLOADS, f"{told_before} AND {unnamed}")
    nobodys = f"{KEY_IN[OWNERS.name]} NOT IN (SELECT {KEY_IN[WORKLOADS.name]} FROM {WORKLOADS.name})"
    return deleted + _delete(engine, OWNERS, f"{told_before} AND {nobodys}")


def delete_over(engine: Engine, table: Table, before_ms: int) -> int:
    """Of an interval there is also the row from when it began: it would last again if only the later went."""
    if table.over is None:
        return 0
    is_over = f"{table.over} < {int(before_ms)}"
    expired = _count(engine, f"{table.name} FINAL", is_over)
    if not expired:
        return 0
    keys = f"({', '.join(table.key)})"
    of_expired = f"{keys} IN (SELECT {keys} FROM {table.name} FINAL WHERE {is_over})"
    if _count(engine, table.name, of_expired) > expired:
        engine.command(f"OPTIMIZE TABLE {table.name} FINAL")
        if _count(engine, table.name, of_expired) > expired:
            log.info("expired records stay until rows of one key are merged", extra={"table": table.name})
            return 0
    return _delete(engine, table, is_over)


def _delete(engine: Engine, table: Table, condition: str) -> int:
    count = _count(engine, table.name, condition)
    if count:
        engine.command(f"DELETE FROM {table.name} WHERE {condition}")
    return count


def _count(engine: Engine, source: str, condition: str) -> int:
    found = engine.query_arrow(f"SELECT count() AS n FROM {source} WHERE {condition}")
    return int(found["n"][0].as_py())
