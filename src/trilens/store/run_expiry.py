"""How what is known of runs expires."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trilens.store.run_commits import BULKY, SMALL
from trilens.store.run_rows import POSITIONS, PROCESSES, RUNS

if TYPE_CHECKING:
    from trilens.store.engine import Engine
    from trilens.store.run_rows import RunTable

log = logging.getLogger(__name__)


def delete_expired_runs(engine: Engine, before_ms: int, steps_before_ms: int) -> int:
    """Steps and samples that came before `steps_before_ms`, all else before the other; returns how many rows.

    Whole partitions go, so that what is left need not be written again.
    """
    deleted = sum(_drop_partitions(engine, table, steps_before_ms) for table in BULKY)
    deleted += sum(_drop_partitions(engine, table, before_ms) for table in SMALL)
    # Of what is told again and again the older rows may go before the last one does: it alone counts.
    deleted += _delete(engine, POSITIONS, f"commit < {before_ms * 1000}")
    deleted += _delete(engine, PROCESSES, f"heard_ms < {before_ms}")
    nobody = f"run NOT IN (SELECT run FROM {PROCESSES.name})"
    return deleted + _delete(engine, RUNS, f"version < {before_ms * 1_000_000} AND {nobody}")


def _drop_partitions(engine: Engine, table: RunTable, before_ms: int) -> int:
    found = engine.query_arrow(
        "SELECT _partition_id AS id, max(commit) AS last, count() AS n "
        f"FROM {table.name} GROUP BY id HAVING last < {before_ms * 1000} ORDER BY id"
    ).to_pylist()
    for partition in found:
        log.info("an old partition goes", extra={"table": table.name, "rows": partition["n"]})
        engine.command(f"ALTER TABLE {table.name} DROP PARTITION ID '{partition['id']}'")
    return sum(partition["n"] for partition in found)


def _delete(engine: Engine, table: RunTable, condition: str) -> int:
    found = engine.query_arrow(f"SELECT count() AS n FROM {table.name} WHERE {condition}")
    count = int(found["n"][0].as_py())
    if count:
        engine.command(f"DELETE FROM {table.name} WHERE {condition}")
    return count
