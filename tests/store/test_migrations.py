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


def test_steps_from_before_the_ledger_are_added_up_like_any_other(directory: Path) -> None:
    """Their phases became columns later."""
    before = tuple(one for one in MIGRATIONS if one.version <= 6)
    with Engine.open(directory) as engine:
        migrate(engine, before)
        columns = "run, step, rank, attempt, n, start_us, us, phases, commit"
        phases = "map('data', 5, 'grad_sync', 7)"
        engine.command(f"INSERT INTO run_steps ({columns}) VALUES ('r', 0, 0, 0, 0, 1, 99, {phases}, 1)")
    with Engine.open(directory) as engine:
        migrate(engine)
        engine.command(f"INSERT INTO run_steps ({columns}) VALUES ('r', 1, 0, 0, 0, 100, 99, {phases}, 2)")
        found = engine.query_arrow("SELECT data_us, sync_us FROM run_steps WHERE start_us + us <= 199")
        assert found.to_pylist() == [{"data_us": 5, "sync_us": 7}] * 2


def test_versions_only_go_up() -> None:
    versions = [m.version for m in MIGRATIONS]
    assert versions == sorted(set(versions))
