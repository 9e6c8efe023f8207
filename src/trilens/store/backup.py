"""A copy of all that a store has, made while it takes in more.

The tables are copied by the engine's own BACKUP, whole parts of one moment: nothing is written between its
first look at the parts and its last, nor since the files that this process holds open were copied. The
others beside the engine follow. Until the manifest is written the copy lies under a name that says it is
unfinished, so what a crash leaves is never taken for a backup.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import sqlite3
import threading
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from trilens import __version__
from trilens.model.errors import BackupError, BackupMisnamed, QueryError, StoreError
from trilens.store import sql
from trilens.store.backup_manifest import (
    FILES,
    FORMAT,
    MANIFEST,
    TABLES,
    KeptFile,
    Manifest,
    kept_file,
    read_manifest,
    seal,
    sync_directory,
)
from trilens.store.engine import DATABASE, ENGINE_DIR
from trilens.store.faults import summary
from trilens.store.lock import LOCK_NAME
from trilens.store.migrations import current_version

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    import pyarrow as pa

    from trilens.store.engine import Engine

    Copies = Mapping[str, Callable[[Path], None]]  # by their paths in the data directory

log = logging.getLogger(__name__)

DEFAULT_PLACE: Final = "backups"  # in the data directory, if settings say nothing
_UNFINISHED: Final = ".unfinished-"
_OWNER: Final = "backup.id"  # in the data directory: part of the names of unfinished ones made of it
_BUSY: Final = "CREATING_BACKUP"
_UNITS: Final = {10**9: "GB", 10**6: "MB", 10**3: "KB"}
_LOOK_S: Final = 0.01  # while writers wait
_WAIT_S: Final = 0.2
_LISTING: Final = ".backup"  # the engine's own, of what it wrote
_SQLITE: Final = b"SQLite format 3\0"
_OF_SQLITE: Final = ("-wal", "-shm", "-journal")


def back_up(
    engine: Engine,
    data_dir: Path,
    target: Path,
    *,
    copies: Copies | None = None,
    like: Path | None = None,
    stop: threading.Event | None = None,
    packed_as: Path | None = None,
) -> Manifest:
    """Make the directory `target`, in the engine's `backup_dir`. `copies` says of files beside the engine
    which this process holds open how to copy them. Files that the backup `like` has too are
    linked to, not stored again. `packed_as` is the tar file beside `target` that is made of it file by file:
    room is wanted for that too, and errors name what was asked for. Raises BackupError, with nothing left
    behind."""
    stop = stop or threading.Event()
    named = packed_as or target
    unfinished = _unfinished(target, data_dir)
    try:
        if target.exists():
            raise BackupError(f"{target} is there already")
        check_place(named, data_dir)
        _check_space(engine, data_dir, target.parent, is_packed=packed_as is not None)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)  # it holds all that tokens and roles keep apart
        made_ms = time.time_ns() // 1_000_000
        files = unfinished / FILES
        files.mkdir()
        held = {data_dir / name: copy for name, copy in (copies or {}).items()}
        _copy_tables(engine, unfinished / TABLES, named, stop, lambda: _copy_held(data_dir, files, held))
        _copy_files(data_dir, files, target.parent, held)
        manifest = seal(
            unfinished,
            Manifest(
                FORMAT,
                made_ms,
                __version__,
                _engine_version(engine),
                current_version(engine),
                _rows(unfinished),
                _settled_files(unfinished, like, stop),
            ),
        )
        unfinished.rename(target)
        sync_directory(target.parent)
    except OSError as e:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise BackupError(f"cannot write the backup {named}: {e.strerror}") from e
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return manifest


def check_place(target: Path, data_dir: Path) -> None:
    """BackupMisnamed where it would lie among the data: anywhere in there but below `backups`."""
    data = data_dir.resolve()
    place = target.parent.resolve()
    if place.is_relative_to(data) and not place.is_relative_to(data / DEFAULT_PLACE):
        raise BackupMisnamed(
            f"{target} would be among the data that it is a backup of",
            hint=f"name a place outside of {data_dir}, best on another disk",
        )


def whole_backups(directory: Path) -> list[tuple[Path, Manifest]]:
    """Those in a directory, the oldest first."""
    found: list[tuple[Path, Manifest]] = []
    try:
        there = sorted(directory.iterdir()) if directory.is_dir() else []
    except OSError as e:
        raise BackupError(f"cannot read {directory}: {e.strerror}") from e
    for path in there:
        if path.is_dir() and not path.name.startswith("."):
            with suppress(BackupError):
                found.append((path, read_manifest(path)))
    return sorted(found, key=lambda one: one[1].made_ms)


def delete_backup(path: Path, data_dir: Path) -> None:
    """Half of it left behind is no backup any more, and goes when a server of these data starts."""
    doomed = _unfinished(path, data_dir)
    try:
        path.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as e:
        raise BackupError(f"cannot delete the backup {path}: {e.strerror}") from e


def clear_unfinished(directory: Path, data_dir: Path) -> None:
    """What was left of backups of these data by one that was killed: whoever has the data knows that nobody
    makes one. Another server's may be in the making."""
    owner = _owner(data_dir)
    for path in sorted(directory.glob(f"{_UNFINISHED}*")):
        if owner and path.name.startswith(f"{_UNFINISHED}{owner}-"):
            log.info("removing a backup that was not finished", extra={"path": str(path)})
            shutil.rmtree(path, ignore_errors=True)
        else:
            log.info("an unfinished backup of other data is left as it is", extra={"path": str(path)})


def _unfinished(target: Path, data_dir: Path) -> Path:
    owner = _owner(data_dir)
    if not owner:
        owner = uuid.uuid4().hex[:12]
        try:
            (data_dir / _OWNER).write_text(owner, encoding="ascii")
        except OSError as e:
            raise BackupError(f"cannot write {data_dir / _OWNER}: {e.strerror}") from e
    return target.with_name(f"{_UNFINISHED}{owner}-{target.name}")


def _owner(data_dir: Path) -> str:
    """Empty before the first backup. It is in none: data that are restored beside these are others."""
    with suppress(OSError):
        return (data_dir / _OWNER).read_text(encoding="ascii", errors="replace").strip()
    return ""


def _check_space(engine: Engine, data_dir: Path, directory: Path, *, is_packed: bool) -> None:
    """A file that is packed is there twice for a moment, and only one at a time is."""
    directory.mkdir(parents=True, exist_ok=True)
    found = engine.query_arrow(
        "SELECT path, bytes_on_disk FROM system.parts WHERE active AND database = currentDatabase()"
    )
    beside = [_size_of(path) for path in _beside_the_engine(data_dir, directory.resolve())]
    wanted, free = sum(found["bytes_on_disk"].to_pylist()) + sum(beside), shutil.disk_usage(directory).free
    if is_packed:
        walked = (one for part in found["path"].to_pylist() for one in os.walk(part))
        of_parts = (_size_of(Path(folder, name)) for folder, _, names in walked for name in names)
        wanted += max(itertools.chain(of_parts, beside), default=0)
    if free < wanted:
        raise BackupError(
            f"no space in {directory}: a backup takes {_size(wanted)}, {_size(free)} are free",
            hint="free some, keep fewer backups, or put them on a larger disk (storage.backup_dir)",
        )


def _size_of(path: Path) -> int:
    """Parts come and go."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _size(bytes: int) -> str:
    unit = next((unit for unit in _UNITS if bytes >= unit), 1)
    return f"{bytes / unit:,.1f} {_UNITS[unit]}" if unit > 1 else f"{bytes:,} bytes"


def _copy_tables(
    engine: Engine, target: Path, named: Path, stop: threading.Event, first: Callable[[], None]
) -> None:
    """`first` is done at the same moment: nothing is written between it and them."""
    id = f"trilens-{uuid.uuid4().hex}"
    with engine.held_still() as link:
        first()
        link.command(
            f"BACKUP DATABASE {sql.identifier(DATABASE)} TO File({sql.text(str(target.resolve()))}) "
            f"SETTINGS id = {sql.text(id)}, deduplicate_files = 0 ASYNC"
        )
        while (state := _state(link.query, id))[0] == _BUSY and not state[1]:  # it still gathers the parts
            time.sleep(_LOOK_S)
    while state[0] == _BUSY:
        if stop.wait(_WAIT_S):
            _cancel(engine, id)
        state = _state(engine.query_arrow, id)
    if stop.is_set():
        raise BackupError("the backup was stopped: the server ends")
    if state[0] != "BACKUP_CREATED":
        why = summary(state[2]).replace(str(target.resolve()), str(named))
        raise BackupError(f"the engine could not write the backup {named}: {why}")
    _check_written(target, named)


def _check_written(target: Path, named: Path) -> None:
    """On a full disk the engine leaves files empty, and reports success."""
    try:
        listed = ElementTree.parse(target / _LISTING)  # noqa: S314 the engine's own, of a moment ago
        for one in listed.iter("file"):
            name, size = one.findtext("name", ""), int(one.findtext("size", "0"))
            found = (target / name).stat().st_size if size else 0
            if found != size:
                raise BackupError(
                    f"{named} was not written whole: {found:,} of {size:,} bytes of {name}",
                    hint="is there space left on its disk?",
                )
    except ElementTree.ParseError as e:
        raise BackupError(f"{named} was not written whole", hint="is there space left on its disk?") from e


def _state(query: Callable[[str], pa.Table], id: str) -> tuple[str, int, str]:
    """What became of it, how many files it has begun to write, and what went wrong."""
    found = query(
        f"SELECT status::String AS status, num_files, error FROM system.backups WHERE id = {sql.text(id)}"
    ).to_pylist()
    if not found:
        raise BackupError("the engine knows nothing of the backup that it began")
    return found[0]["status"], found[0]["num_files"], found[0]["error"]


def _cancel(engine: Engine, id: str) -> None:
    with suppress(StoreError, QueryError):
        engine.command(
            "KILL QUERY WHERE query_id IN "
            f"(SELECT query_id FROM system.backups WHERE id = {sql.text(id)}) ASYNC"
        )


def _copy_held(data_dir: Path, target: Path, held: Mapping[Path, Callable[[Path], None]]) -> None:
    for path, copy_to in held.items():
        try:
            if path.is_file():
                copy_to(_made_room(target / path.relative_to(data_dir)))
        except OSError as e:
            raise BackupError(f"cannot copy {path}: {e.strerror}") from e


def _copy_files(data_dir: Path, target: Path, backup_dir: Path, held: Container[Path]) -> None:
    for path in _beside_the_engine(data_dir, backup_dir.resolve()):
        if path in held:
            continue
        copy = _made_room(target / path.relative_to(data_dir))
        if _is_sqlite(path):
            _copy_sqlite(path, copy)
        else:
            shutil.copyfile(path, copy)


def _made_room(copy: Path) -> Path:
    """For a file that its owner alone may read."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.touch(0o600)
    return copy


def _beside_the_engine(data_dir: Path, backup_dir: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(data_dir):
        here = Path(folder)
        folders[:] = [
            name
            for name in folders
            if (here / name).resolve() != backup_dir
            and not (here == data_dir and name == ENGINE_DIR)
            and not _is_backup(here / name)
        ]
        for name in sorted(names):
            path = here / name
            if name not in (LOCK_NAME, _OWNER) and not name.endswith(_OF_SQLITE) and path.is_file():
                yield path


def _is_backup(path: Path) -> bool:
    """Whole or not: made there by a server whose settings are not known here."""
    return path.name.startswith(_UNFINISHED) or (path / MANIFEST).is_file()


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _copy_sqlite(path: Path, copy: Path) -> None:
    """As one transaction left it, whoever writes to it meanwhile."""
    try:
        with (
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.execute("SELECT 1 FROM sqlite_master").fetchall()  # one that is held would be waited for
            source.backup(target)
    except sqlite3.Error as e:
        raise BackupError(f"cannot copy {path}: {e}") from e


def _settled_files(directory: Path, like: Path | None, stop: threading.Event) -> dict[str, KeptFile]:
    """All that is there, on disk for good."""
    before = _files_of(like)
    files: dict[str, KeptFile] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_dir():
            continue
        if stop.is_set():
            raise BackupError("the backup was stopped: the server ends")
        name = path.relative_to(directory).as_posix()
        files[name] = kept = kept_file(path, sync=True)
        if like is not None and before.get(name) == kept and _still_is(like / name, kept):
            _link(like / name, path)
    return files


def _files_of(backup: Path | None) -> dict[str, KeptFile]:
    """None of one that cannot be read: then all is stored again."""
    with suppress(BackupError):
        return read_manifest(backup).files if backup is not None else {}
    return {}


def _still_is(path: Path, kept: KeptFile) -> bool:
    """What its disk let rot is in no later backup."""
    try:
        return kept_file(path) == kept
    except OSError:
        return False


def _link(old: Path, new: Path) -> None:
    """Part files never change: one of the same bytes may be in many backups."""
    beside = new.with_name(f"{new.name}.link")
    with suppress(OSError):  # another disk, or too many links: then there are two
        os.link(old, beside)
        beside.replace(new)


def _rows(directory: Path) -> dict[str, int]:
    """Each part says how many it has."""
    rows: dict[str, int] = {}
    for table in (directory / TABLES / "metadata" / DATABASE).glob("*.sql"):
        parts = (directory / TABLES / "data" / DATABASE / table.stem).glob("*/count.txt")
        rows[table.stem] = sum(int(part.read_text()) for part in parts)
    return dict(sorted(rows.items()))


def _engine_version(engine: Engine) -> str:
    return str(engine.query_arrow("SELECT version() AS version")["version"][0].as_py())
