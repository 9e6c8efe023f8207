"""A store comes to today's schema from any version, and one from the future is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trilens.model.errors import SchemaTooNew, StoreError
from trilens.store.engine import Engine
from trilens.store.migrations import MIGRATIONS, Migration, current_version, migrate

if TYPE_CHECKING:
    from pathlib import Path

NEXT = Migration(
    MIGRATIONS[-1].version + 1,
    "a table more",
    (
        "CREATE TABLE IF NOT EXISTS more (a UInt8) ENGINE = MergeTree ORDER BY a "
        "SETTINGS index_granularity = 512",
    ),
)


def tables(engine: Engine) -> set[str]:
    found = engine.query_arrow("SELECT name FROM system.tables WHERE database = currentDatabase()")
    return set(found["name"].to_pylist())


def test_migrating_twice_changes_nothing(new_engine: Engine) -> None:
    before = tables(new_engine)
    assert migrate(new_engine) == current_version(new_engine) == MIGRATIONS[-1].version
    assert tables(new_engine) == before


def test_only_what_is_new_runs(new_engine: Engine) -> None:
    poisoned = tuple(Migration(m.version, m.name, ("THIS IS NOT SQL",)) for m in MIGRATIONS)
    assert migrate(new_engine, (*poisoned, NEXT)) == NEXT.version
    assert "more" in tables(new_engine)


def test_a_migration_that_fails_is_tried_again(new_engine: Engine) -> None:
    broken = Migration(NEXT.version, NEXT.name, (*NEXT.statements, "ALTER TABLE missing DROP COLUMN a"))
    with pytest.raises(StoreError):
        migrate(new_engine, (*MIGRATIONS, broken))
    assert current_version(new_engine) == MIGRATIONS[-1].version
    assert migrate(new_engine, (*MIGRATIONS, NEXT)) == NEXT.version


def test_a_newer_schema_is_refused(location: str | Path) -> None:
    with Engine.open(location) as engine:
        migrate(engine, (*MIGRATIONS, NEXT))
        with pytest.raises(SchemaTooNew, match=f"schema version {NEXT.version}; .* up to version"):
            migrate(engine)


def test_versions_only_go_up() -> None:
    versions = [m.version for m in MIGRATIONS]
    assert versions == sorted(set(versions))
