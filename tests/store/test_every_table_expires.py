"""What is deleted when, of every table that a migration makes: a new one needs a decision."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trilens.store.engine import Engine
from trilens.store.migrations import MIGRATIONS, migrate
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

# Each with why it may stay: it does not grow with time.
KEPT_FOR_GOOD: Final = {
    "schema_version": "a row for each migration",
    "metadata": "a row for each metric's name",
    "progress": "a row for each job of upkeep",
    "rollup_hours": "a row for each hour to which samples came late",
    "access_tokens": "a few rows for each token: who had which is asked long after",
    "notifications": "a row for each thing that somebody is told of, emptied when it is over",
}
# What lasts has no end: a row of zeros would.
OVER: Final = {"end_ms": 1, "to_ms": 1}


def made_tables() -> set[str]:
    statements = "\n".join(text for one in MIGRATIONS for text in one.statements)
    return {"schema_version", *re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", statements)}


def fill(engine: Engine) -> None:
    """Every table with a row of long ago."""
    for table in sorted(made_tables()):
        columns = engine.query_arrow(
            f"SELECT name FROM system.columns WHERE table = '{table}' AND database = currentDatabase() "
            "AND default_kind = '' ORDER BY position"
        )["name"].to_pylist()
        values = ", ".join(str(OVER.get(column, "DEFAULT")) for column in columns)
        engine.command(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})")


def test_every_table_has_a_retention(directory: Path) -> None:
    with Engine.open(directory) as engine:
        migrate(engine)
        fill(engine)
    store = Store.open(StoreOptions(data_dir=directory, retention=timedelta(days=15)), upkeep=False)
    try:
        left = after_a_year(store)
    finally:
        store.close()
    assert left == KEPT_FOR_GOOD.keys()


def after_a_year(store: Store) -> set[str]:
    """The tables that still have rows when upkeep has done all that it does."""
    from trilens.store.retention import apply_retention

    apply_retention(store.engine, StoreOptions().kept_for)
    upkeep = store._upkeep
    upkeep.delete_expired_records()
    upkeep.delete_expired_ledger()
    for table in made_tables():
        store.engine.command(f"OPTIMIZE TABLE {table} FINAL")
    upkeep.delete_expired_series()
    counts = " UNION ALL ".join(f"SELECT '{one}' AS name, count() AS n FROM {one}" for one in made_tables())
    found = store.engine.query_arrow(f"SELECT name FROM ({counts}) WHERE n > 0")
    return set(found["name"].to_pylist())
