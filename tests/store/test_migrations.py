"""A store comes to today's schema from any version, and one from the future is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from trilens.model.errors import SchemaTooNew, StoreError
from trilens.model.run import RunId
from trilens.store.engine import Engine
from trilens.store.events import EventRecords
from trilens.store.migrations import MIGRATIONS, Migration, current_version, migrate
from trilens.store.record_writer import RecordWriter
from trilens.store.runs import RunRecords

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


def test_each_statement_may_run_twice(location: str | Path) -> None:
    """A crash may come between the last of them and the row that says that all ran."""
    with Engine.open(location) as engine:
        for upto in range(1, len(MIGRATIONS) + 1):
            migrate(engine, MIGRATIONS[:upto])
            before = shape(engine)
            engine.command("TRUNCATE TABLE schema_version")
            assert migrate(engine, MIGRATIONS[:upto]) == upto
            assert shape(engine) == before


def shape(engine: Engine) -> dict[str, str]:
    found = engine.query_arrow(
        "SELECT name, create_table_query AS ddl FROM system.tables WHERE database = currentDatabase()"
    )
    return dict(zip(found["name"].to_pylist(), found["ddl"].to_pylist(), strict=True))


@pytest.mark.parametrize(("seen", "codec"), [("TRUE", "ALP, ZSTD(3)"), ("NOT name ILIKE '%alp%'", "ZSTD(3)")])
def test_values_are_kept_as_the_engine_can(
    directory: Path, monkeypatch: pytest.MonkeyPatch, seen: str, codec: str
) -> None:
    """One that has the codec, but not the setting that allows it, takes no table with it."""
    with Engine.open(directory) as engine:
        monkeypatch.setattr(
            engine, "system_table", lambda name: f"(SELECT * FROM system.{name} WHERE name != '' AND {seen})"
        )
        migrate(engine)
        found = engine.query_arrow(
            "SELECT compression_codec AS codec FROM system.columns "
            "WHERE database = currentDatabase() AND table = 'samples' AND name = 'v'"
        )
        assert found["codec"].to_pylist() == [f"CODEC({codec})"]


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


def test_what_was_kept_before_clusters_were_told_is_read_as_of_none(directory: Path) -> None:
    before = tuple(one for one in MIGRATIONS if one.version <= 12)
    with Engine.open(directory) as engine:
        migrate(engine, before)
        columns = "node, id, t_ms, kind, description, victims, ledger, number, version"
        engine.command(f"INSERT INTO events ({columns}) VALUES ('n', '1', 5, 'xid', 'x', '[]', 'l', 1, 1)")
        columns = "run, rank, writer, started_ms, gpus, versions, lost, heard_ms, version"
        engine.command(
            f"INSERT INTO run_processes ({columns}) VALUES ('r', 0, 'w', 1, '[]', '{{}}', '{{}}', 9, 1)"
        )
    with Engine.open(directory) as engine:
        migrate(engine)
        writer = RecordWriter(engine)
        events = EventRecords(engine, writer)
        [old] = events.between(0, 9, limit=9)
        events.event(replace(old, cluster="east"))
        writer.close()
        assert [one.cluster for one in events.between(0, 9, limit=9)] == ["", "east"]
        assert [one.cluster for one in RunRecords(engine).processes([RunId("r")])] == [None]


def test_versions_only_go_up() -> None:
    versions = [m.version for m in MIGRATIONS]
    assert versions == sorted(set(versions))
