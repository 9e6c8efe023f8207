"""A small database on disk, or in memory and a mirror; in memory alone while these take nothing, as people
are to be told then, too."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilens.alert.delivery.mirror import fill, take
from trilens.alert.delivery.mirror_teller import MirrorTeller
from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trilens.alert.delivery.mirror import Mirror, MirroredRow

log = logging.getLogger(__name__)

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS waiting (
    outlet TEXT, key TEXT, body BLOB, is_over INTEGER, since_ms INTEGER, due_ms INTEGER, version INTEGER,
    PRIMARY KEY (outlet, key)
);
CREATE INDEX IF NOT EXISTS waiting_due ON waiting (outlet, due_ms);
CREATE TABLE IF NOT EXISTS told (
    outlet TEXT, key TEXT, about BLOB, PRIMARY KEY (outlet, key)
);
CREATE TABLE IF NOT EXISTS silences (id TEXT PRIMARY KEY, body BLOB);
"""
_TABLES: Final = ("waiting", "told", "silences")
_VERSION: Final = 1
_OWNER_ALONE: Final = 0o600
_BESIDE: Final = ("-wal", "-shm")  # what SQLite keeps there
_DISK_AGAIN_S: Final = 1.0

_T = TypeVar("_T")


class QueueFile:
    """Thread-safe. Raises StoreError where even memory does not help."""

    def __init__(self, file: Path | None, mirror: Mirror | None = None) -> None:
        """None: in memory, for one who has nobody to tell, or where a mirror keeps it."""
        self._lock = threading.Lock()
        self._disk = _opened(file) if file is not None else None
        self._memory = _connected(":memory:") if self._disk is None else None
        self._disk_again = 0.0
        self._teller: MirrorTeller | None = None
        if mirror is not None:
            fill(self._db(), mirror)
            self._teller = MirrorTeller(mirror, self._take)
            self._teller.start()

    def close(self) -> None:
        if self._teller is not None:
            self._teller.close()
        with self._lock:
            for db in (self._memory, self._disk):
                if db is not None:
                    db.close()

    def copy_to(self, file: Path) -> None:
        """As the last transaction left it; nobody else can, while this process holds the file."""
        with self._lock, _told(), closing(sqlite3.connect(file)) as target:
            self._db().backup(target)

    def read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, _told():
            return self._db().execute(query, values).fetchall()

    def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """One transaction: all of it, or nothing. On disk or with the mirror when it returns, if they can."""
        done = self._write(work)
        if self._teller is not None:
            self._teller.tell()
        return done

    def _write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock, _told():
            try:
                return _transaction(self._db(), work)
            except sqlite3.OperationalError as e:
                if self._disk is None or self._memory is not None:
                    raise
                self._go_on_in_memory(self._disk, e)
                return _transaction(self._db(), work)

    def _take(self) -> Sequence[MirroredRow]:
        with self._lock, _told():
            return _transaction(self._db(), take)

    def _db(self) -> sqlite3.Connection:
        if self._memory is not None and self._disk is not None and time.monotonic() >= self._disk_again:
            self._go_back(self._memory, self._disk)
        db = self._memory or self._disk
        assert db is not None
        return db

    def _go_on_in_memory(self, disk: sqlite3.Connection, why: sqlite3.Error) -> None:
        memory = _connected(":memory:")
        try:
            _transaction(memory, lambda db: _copy(disk, db))
        except sqlite3.Error:
            memory.close()
            raise
        log.error("notifications wait in memory: the disk does not take them", extra={"error": str(why)})
        self._memory, self._disk_again = memory, time.monotonic() + _DISK_AGAIN_S

    def _go_back(self, memory: sqlite3.Connection, disk: sqlite3.Connection) -> None:
        try:
            _transaction(disk, lambda db: _copy(memory, db))
        except sqlite3.Error:
            self._disk_again = time.monotonic() + _DISK_AGAIN_S
            return
        log.info("notifications are on disk again")
        memory.close()
        self._memory = None


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as e:
        raise StoreError(f"the queue of notifications cannot be used: {e}") from e


def _transaction(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], _T]) -> _T:
    with db:
        return work(db)


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    for table in _TABLES:
        target.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
        for row in source.execute(f"SELECT * FROM {table}"):  # noqa: S608
            target.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608


def _opened(file: Path) -> sqlite3.Connection:
    """A file that does not read back is set aside: alerts that last are told again, and must be told."""
    try:
        _make_private(file)
        try:
            return _connected(file)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as e:
            _set_aside(file, e)
        _make_private(file)
        return _connected(file)
    except (sqlite3.OperationalError, OSError) as e:
        raise StoreError(f"cannot open the queue of notifications {file}: {e}") from e


def _set_aside(file: Path, why: Exception) -> None:
    aside = file.with_name(f"{file.name}.damaged")
    log.error(
        "the queue of notifications is damaged, and set aside: what waited in it is lost",
        extra={"file": str(aside), "error": str(why)},
    )
    for suffix in _BESIDE:
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    file.replace(aside)


def _make_private(file: Path) -> None:
    """It may be there already, of a Trilens that left it open to all; and what SQLite put beside it, which is
    made for the same people as the file."""
    os.close(os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OWNER_ALONE))
    for suffix in ("", *_BESIDE):
        with suppress(OSError):  # not there; or somebody else's, who may say who reads it
            file.with_name(file.name + suffix).chmod(_OWNER_ALONE)


def _connected(file: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(file, check_same_thread=False)
    try:
        # Two that send from one queue would say all of it twice.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a message that was taken outlives the power, too
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise StoreError(f"the queue of notifications {file} was written by a newer Trilens")
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        db.close()
        raise
    return db
