"""What is still to be told, and what was: on disk before anybody relies on it, through a kill of the process.

Of one thing there is at most one message for each outlet, and it says how that thing stands now. So messages
of one incident cannot overtake each other, and what came and went while a receiver was away is told as one.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message, not sent yet."""

    outlet: str
    key: str  # what it is about
    body: bytes
    is_over: bool
    since_ms: int  # how long something of it has been waiting
    due_ms: int
    version: int = 0  # another one each time that it is put anew


@dataclass(frozen=True, slots=True)
class Told:
    outlet: str
    key: str
    about: bytes  # what was told, in short


@dataclass(frozen=True, slots=True)
class Backlog:
    count: int
    oldest_ms: int


class Outbox:
    """Thread-safe. Everything raises StoreError where the disk does not do as it should."""

    def __init__(self, file: Path | None) -> None:
        """None: in memory, for one who has nobody to tell."""
        self._lock = threading.Lock()
        self._db = _opened(file) if file is not None else _connected(":memory:")
        with self._asking() as db:
            (latest,) = db.execute("SELECT coalesce(max(version), 0) FROM waiting").fetchone()
        self._version: int = latest

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def put(self, messages: Sequence[Waiting], most: int) -> dict[str, int]:
        """On disk when it returns. How many were dropped to make room, by outlet."""
        dropped: dict[str, int] = {}
        with self._asking() as db:
            for one in messages:
                self._version += 1
                # One that waits keeps its place: it has waited since then.
                db.execute(
                    "INSERT INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (outlet, key) DO UPDATE SET body = excluded.body, "
                    "is_over = excluded.is_over, version = excluded.version, "
                    "due_ms = min(due_ms, excluded.due_ms)",
                    (one.outlet, one.key, one.body, one.is_over, one.since_ms, one.due_ms, self._version),
                )
            for outlet in {one.outlet for one in messages}:
                (count,) = db.execute("SELECT count(*) FROM waiting WHERE outlet = ?", (outlet,)).fetchone()
                if count > most:
                    db.execute(
                        "DELETE FROM waiting WHERE outlet = ? AND key IN "
                        "(SELECT key FROM waiting WHERE outlet = ? ORDER BY is_over DESC, since_ms LIMIT ?)",
                        (outlet, outlet, count - most),
                    )
                    dropped[outlet] = count - most
        return dropped

    def due(self, outlet: str, now_ms: int, most: int) -> list[Waiting]:
        with self._asking() as db:
            rows = db.execute(
                "SELECT outlet, key, body, is_over, since_ms, due_ms, version FROM waiting "
                "WHERE outlet = ? AND due_ms <= ? ORDER BY since_ms, version LIMIT ?",
                (outlet, now_ms, most),
            ).fetchall()
        return [Waiting(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in rows]

    def next_due_ms(self, outlet: str) -> int | None:
        with self._asking() as db:
            (due_ms,) = db.execute("SELECT min(due_ms) FROM waiting WHERE outlet = ?", (outlet,)).fetchone()
        found: int | None = due_ms
        return found

    def done(self, messages: Sequence[Waiting], told: Sequence[Told] = (), over: Sequence[str] = ()) -> None:
        """They leave, unless they were put anew meanwhile; `over` are keys of which nothing more is told."""
        with self._asking() as db:
            db.executemany(
                "DELETE FROM waiting WHERE outlet = ? AND key = ? AND version = ?",
                [(one.outlet, one.key, one.version) for one in messages],
            )
            db.executemany(
                "INSERT OR REPLACE INTO told VALUES (?, ?, ?)",
                [(one.outlet, one.key, one.about) for one in told],
            )
            outlets = {one.outlet for one in messages}
            db.executemany(
                "DELETE FROM told WHERE outlet = ? AND key = ?",
                [(outlet, key) for outlet in outlets for key in over],
            )

    def withdraw(self, outlet: str, key: str) -> None:
        """Nobody need be told any more."""
        with self._asking() as db:
            db.execute("DELETE FROM waiting WHERE outlet = ? AND key = ?", (outlet, key))

    def waiting(self, outlets: Sequence[str]) -> dict[tuple[str, str], Waiting]:
        """All for these, without their bodies."""
        rows = []
        with self._asking() as db:
            for outlet in outlets:
                rows += db.execute(
                    "SELECT outlet, key, is_over, since_ms, due_ms, version FROM waiting WHERE outlet = ?",
                    (outlet,),
                ).fetchall()
        return {(row[0], row[1]): Waiting(row[0], row[1], b"", bool(row[2]), *row[3:]) for row in rows}

    def backlogs(self) -> dict[str, Backlog]:
        with self._asking() as db:
            rows = db.execute(
                "SELECT outlet, count(*), min(since_ms) FROM waiting GROUP BY outlet"
            ).fetchall()
        return {outlet: Backlog(count, oldest_ms) for outlet, count, oldest_ms in rows}

    def told(self) -> list[Told]:
        with self._asking() as db:
            return [Told(*row) for row in db.execute("SELECT outlet, key, about FROM told")]

    def forget(self, places: Sequence[tuple[str, str]]) -> None:
        """What these outlets know of these keys."""
        with self._asking() as db:
            db.executemany("DELETE FROM told WHERE outlet = ? AND key = ?", places)

    def keep_outlets(self, outlets: set[str]) -> int:
        """What waits for those that are no more is dropped. How many messages that were."""
        with self._asking() as db:
            known = {row[0] for row in db.execute("SELECT outlet FROM waiting UNION SELECT outlet FROM told")}
            dropped = 0
            for outlet in known - outlets:
                dropped += db.execute("DELETE FROM waiting WHERE outlet = ?", (outlet,)).rowcount
                db.execute("DELETE FROM told WHERE outlet = ?", (outlet,))
        return dropped

    def put_silence(self, name: str, body: bytes) -> None:
        with self._asking() as db:
            db.execute("INSERT OR REPLACE INTO silences VALUES (?, ?)", (name, body))

    def drop_silence(self, name: str) -> None:
        with self._asking() as db:
            db.execute("DELETE FROM silences WHERE id = ?", (name,))

    def silences(self) -> list[bytes]:
        with self._asking() as db:
            return [row[0] for row in db.execute("SELECT body FROM silences")]

    @contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        try:
            with self._lock, self._db:
                yield self._db
        except sqlite3.Error as e:
            raise StoreError(f"the queue of notifications cannot be used: {e}") from e


def _opened(file: Path) -> sqlite3.Connection:
    """A file that does not read back is set aside: alerts that last are told again, and must be told."""
    try:
        return _connected(file)
    except sqlite3.OperationalError as e:
        raise StoreError(f"cannot open the queue of notifications {file}: {e}") from e
    except sqlite3.DatabaseError as e:
        aside = file.with_name(f"{file.name}.damaged")
        log.error(
            "the queue of notifications is damaged, and set aside: what waited in it is lost",
            extra={"file": str(aside), "error": str(e)},
        )
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        file.replace(aside)
        return _connected(file)


def _connected(file: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(file, check_same_thread=False)
    try:
        db.execute(
            "PRAGMA locking_mode = EXCLUSIVE"
        )  # two that send from one queue would say all of it twice
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a message that was taken outlives the power, too
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise StoreError(f"the queue of notifications {file} was written by a newer Trilens")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        db.close()
        raise
    return db
