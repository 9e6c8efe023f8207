"""A data directory made of a backup, which is checked first, file by file."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.errors import BackupError, BackupMisnamed, SchemaTooNew
from trilens.store import sql
from trilens.store.backup_manifest import (
    FILES,
    TABLES,
    Manifest,
    damaged_files,
    read_manifest,
    sync_directory,
    sync_tree,
)
from trilens.store.backup_tar import unpack
from trilens.store.engine import DATABASE, ENGINE_DIR, Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.lock import LOCK_NAME
from trilens.store.migrations import MIGRATIONS, migrate

if TYPE_CHECKING:
    from pathlib import Path

_RESTORING: Final = "restoring"  # inside the data directory, until all is there
_NO_DATA: Final = frozenset({_RESTORING, "lost+found"})  # the second is a volume's own
_EXAMPLES: Final = 5
_OWNER_ALONE: Final = 0o700  # it holds all that tokens and roles keep apart


class Restored(NamedTuple):
    manifest: Manifest
    schema: int  # after migrations


def restore(backup: Path, data_dir: Path) -> Restored:
    """From a directory or a tar file into a new or empty directory. Raises BackupError; what is there then
    has no engine in it, and may be tried again."""
    staging, was_there = data_dir / _RESTORING, data_dir.exists()
    _make_empty(data_dir)
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(_OWNER_ALONE)
        found = backup if backup.is_dir() else unpack(backup, staging / "backup")
        return _restored(found, check(found, backup), data_dir, staging)
    except OSError as e:
        raise BackupError(f"cannot restore {backup} into {data_dir}: {e.strerror}") from e
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if not was_there:
            with suppress(OSError):  # it has data in it now, and stays
                data_dir.rmdir()


def _make_empty(data_dir: Path) -> None:
    """One that is there keeps its mode: whose it is, its maker knows."""
    into = "a backup is restored into a new or an empty directory"
    try:
        data_dir.mkdir(_OWNER_ALONE, parents=True, exist_ok=True)
        if {path.name for path in data_dir.iterdir()} - _NO_DATA:
            raise BackupMisnamed(f"{data_dir} is not empty", hint=into)
    except (FileExistsError, NotADirectoryError) as e:
        raise BackupMisnamed(
            f"cannot make the data directory {data_dir}: that is a file, or below one", hint=into
        ) from e
    except OSError as e:
        raise BackupMisnamed(f"cannot make the data directory {data_dir}: {e.strerror}") from e


def check(directory: Path, backup: Path) -> Manifest:
    """Raises BackupError naming what is damaged of `backup`, which lies in `directory`, and SchemaTooNew."""
    manifest = read_manifest(directory)
    damaged = list(damaged_files(directory, manifest))
    if damaged:
        rest = f" and {len(damaged) - _EXAMPLES} more" if len(damaged) > _EXAMPLES else ""
        raise BackupError(
            f"{backup} is damaged, nothing was restored: {'; '.join(damaged[:_EXAMPLES])}{rest}",
            hint="restore another backup",
        )
    newest = MIGRATIONS[-1].version
    if manifest.schema > newest:
        raise SchemaTooNew(
            f"{backup} has schema version {manifest.schema}; this Trilens knows up to version {newest}"
        )
    return manifest


def _restored(backup: Path, manifest: Manifest, data_dir: Path, staging: Path) -> Restored:
    made = staging / "data"
    if (backup / FILES).is_dir():  # a tar file has no empty folders
        shutil.copytree(backup / FILES, made)
    with Engine.open(made, EngineOptions(backup_dir=backup)) as engine:
        tables = sql.text(str((backup / TABLES).resolve()))
        restoring = f"RESTORE DATABASE {sql.identifier(DATABASE)} FROM File({tables})"
        engine.command(f"{restoring} SETTINGS structure_only = 1")
        # Of the tables that are there by now: rows can be counted before any is replaced or expires.
        engine.command("SYSTEM STOP MERGES")
        engine.command("SYSTEM STOP TTL MERGES")
        engine.command(restoring)
        _check_rows(engine, manifest)
        schema = migrate(engine)
    (made / LOCK_NAME).unlink()
    sync_tree(made)
    # The engine last: while it is not there, a server finds no data in this directory.
    for path in sorted(made.iterdir(), key=lambda path: path.name == ENGINE_DIR):
        path.rename(data_dir / path.name)
    sync_directory(data_dir)
    sync_directory(data_dir.absolute().parent)  # it may have been made here
    return Restored(manifest, schema)


def _check_rows(engine: Engine, manifest: Manifest) -> None:
    found = engine.query_arrow(
        "SELECT table, sum(rows) AS rows FROM system.parts "
        "WHERE active AND database = currentDatabase() GROUP BY table"
    )
    rows = {row["table"]: int(row["rows"]) for row in found.to_pylist()}
    wrong = [
        f"{table} has {rows.get(table, 0):,} of {wanted:,} rows"
        for table, wanted in manifest.rows.items()
        if rows.get(table, 0) != wanted
    ]
    if wrong:
        raise BackupError(f"the engine did not restore all: {'; '.join(wrong)}")
