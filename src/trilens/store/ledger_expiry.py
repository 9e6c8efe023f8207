"""How hours and days of the ledger expire: whole months, so that what is left need not be written again."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trilens.store.ledger_days import DAYS_MADE
from trilens.store.ledger_rows import BILLS, HOURS, ROWS
from trilens.store.ledger_sources import DAYS, PAIRS

if TYPE_CHECKING:
    from trilens.store.engine import Engine

log = logging.getLogger(__name__)

_BY_MONTH: Final = ((ROWS, "hour_ms"), (BILLS, "hour_ms"), (DAYS, "day_ms"), (PAIRS, "day_ms"))
_NAMES: Final = ((HOURS, "hour_ms"), (DAYS_MADE, "day_ms"))


def month_of(moment_ms: int) -> int:
    """When its month began."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return int(datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp() * 1000)


def delete_months(engine: Engine, until_ms: int) -> int:
    """Those that were over by then; returns how many rows."""
    deleted = sum(_drop_months(engine, table, column, until_ms) for table, column in _BY_MONTH)
    for table, column in _NAMES:
        condition = f"{column} < {until_ms}"
        found = engine.query_arrow(f"SELECT count() AS n FROM {table} WHERE {condition}")
        if count := int(found["n"][0].as_py()):
            engine.command(f"DELETE FROM {table} WHERE {condition}")
            deleted += count
    return deleted


def _drop_months(engine: Engine, table: str, column: str, until_ms: int) -> int:
    found = engine.query_arrow(
        f"SELECT _partition_id AS id, max({column}) AS last, count() AS n "
        f"FROM {table} GROUP BY id HAVING last < {until_ms} ORDER BY id"
    ).to_pylist()
    for month in found:
        log.info("an old month goes", extra={"table": table, "rows": month["n"]})
        engine.command(f"ALTER TABLE {table} DROP PARTITION ID '{month['id']}'")
    return sum(month["n"] for month in found)
