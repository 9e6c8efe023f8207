"""How long rows stay. Samples and rollups have TTLs, set from the settings at start; see records.py."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trilens.model.errors import ConfigError
from trilens.store import sql
from trilens.store.progress import load_progress, save_progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.store.engine import Engine

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    raw: timedelta
    five_minutes: timedelta
    one_hour: timedelta
    records: timedelta  # after what they tell of was over
    steps: timedelta = timedelta(days=90)  # of runs, with their batches and samples
    ledger: timedelta = timedelta(days=1095)  # with what was imported for it

    def __post_init__(self) -> None:
        kept = (self.raw, self.five_minutes, self.one_hour, self.records, self.steps, self.ledger)
        if min(kept).total_seconds() < 1:
            raise ConfigError("a retention must be at least a second")

    @property
    def longest(self) -> timedelta:
        """Of samples."""
        return max(self.raw, self.five_minutes, self.one_hour)


def apply_retention(engine: Engine, retention: Retention) -> tuple[str, ...]:
    """Set the TTLs that differ from what is wanted; returns the tables that were changed.

    What was interrupted is done again, whole: that it is done is noted last. Whole parts expire, so raw
    samples go a day at a time and rollups a month at a time.
    """
    wanted = {
        "samples": ("t", retention.raw),
        "samples_5m": ("end_t", retention.five_minutes),
        "samples_1h": ("end_t", retention.one_hour),
    }
    there = _tables(engine, map(engine.part_of, wanted))
    changed: list[str] = []
    for table, (column, keep) in wanted.items():
        job, seconds = f"retention of {table}", int(keep.total_seconds())
        ttl = f"toDateTime(fromUnixTimestamp64Milli({column}, 'UTC')) + toIntervalSecond({seconds})"
        definition, is_empty = there[engine.part_of(table)]
        if ttl in definition and load_progress(engine, job) == seconds:
            continue
        log.info("keeping table %s for %g days", table, keep.total_seconds() / 86_400)
        # Old parts only learn when they expire; nothing is rewritten.
        alter = f"ALTER TABLE {sql.identifier(table)}"
        engine.command(f"{alter} MODIFY TTL {ttl} SETTINGS materialize_ttl_after_modify = 0")
        if not is_empty or engine.cluster is not None:  # another node may have rows
            engine.command(f"{alter} MODIFY SETTING materialize_ttl_recalculate_only = 1")
            engine.command(f"{alter} MATERIALIZE TTL")
        save_progress(engine, job, seconds)
        changed.append(table)
    return tuple(changed)


def _tables(engine: Engine, names: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """How each was made, and whether it has no rows."""
    found = engine.query_arrow(
        "SELECT name, create_table_query AS ddl, ifNull(total_rows, 1) = 0 AS is_empty FROM system.tables "
        f"WHERE database = currentDatabase() AND name IN {sql.text_list(sorted(names))}"
    )
    return {row["name"]: (row["ddl"], bool(row["is_empty"])) for row in found.to_pylist()}
