"""What is still to be told, and what was: on disk before anybody relies on it, through a kill of the process.

Of one thing there is at most one message for each outlet, and it says how that thing stands now. So messages
of one incident cannot overtake each other, and what came and went while a receiver was away is told as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.alert.delivery.queue_file import QueueFile

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from trilens.alert.delivery.mirror import Mirror

_NOTE: Final = "INSERT OR REPLACE INTO told VALUES (?, ?, ?)"
_FORGET: Final = "DELETE FROM told WHERE outlet = ? AND key = ?"


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
    """Thread-safe. Everything raises StoreError where neither disk nor memory does as it should."""

    def __init__(self, file: Path | None, mirror: Mirror | None = None) -> None:
        """None: in memory, for one who has nobody to tell, or where a mirror keeps it."""
        self._file = QueueFile(file, mirror)
        ((latest,),) = self._file.read("SELECT coalesce(max(version), 0) FROM waiting")
        self._version: int = latest

    def close(self) -> None:
        self._file.close()

    def copy_to(self, file: Path) -> None:
        self._file.copy_to(file)

    def put(self, messages: Sequence[Waiting], most: int) -> dict[str, int]:
        """On disk when it returns, if it can be. How many were dropped to make room, by outlet."""
        return self._file.write(lambda db: self._put(db, messages, most))

    def _put(self, db: sqlite3.Connection, messages: Sequence[Waiting], most: int) -> dict[str, int]:
        dropped: dict[str, int] = {}
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
        """Also what was put later than now: the clock has been set back, and nothing waits for that."""
        rows = self._file.read(
            "SELECT outlet, key, body, is_over, since_ms, due_ms, version FROM waiting "
            "WHERE outlet = ? AND (due_ms <= ? OR since_ms > ?) ORDER BY since_ms, version LIMIT ?",
            *(outlet, now_ms, now_ms, most),
        )
        return [Waiting(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in rows]

    def next_due_ms(self, outlet: str) -> int | None:
        ((due_ms,),) = self._file.read("SELECT min(due_ms) FROM waiting WHERE outlet = ?", outlet)
        found: int | None = due_ms
        return found

    def done(self, messages: Sequence[Waiting], told: Sequence[Told] = (), over: Sequence[str] = ()) -> None:
        """They leave, unless they were put anew meanwhile; `over` are keys of which nothing more is told."""
        outlets = {one.outlet for one in messages}

        def note(db: sqlite3.Connection) -> None:
            db.executemany(
                "DELETE FROM waiting WHERE outlet = ? AND key = ? AND version = ?",
                [(one.outlet, one.key, one.version) for one in messages],
            )
            db.executemany(_NOTE, [(one.outlet, one.key, one.about) for one in told])
            db.executemany(_FORGET, [(outlet, key) for outlet in outlets for key in over])

        self._file.write(note)

    def withdraw(self, outlet: str, key: str, *told: Told) -> None:
        """It need not be sent any more."""

        def take_back(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM waiting WHERE outlet = ? AND key = ?", (outlet, key))
            db.executemany(_NOTE, [(one.outlet, one.key, one.about) for one in told])

        self._file.write(take_back)

    def waiting(self, outlets: Sequence[str]) -> dict[tuple[str, str], Waiting]:
        """All for these, without their bodies."""
        query = "SELECT outlet, key, is_over, since_ms, due_ms, version FROM waiting WHERE outlet = ?"
        rows = [row for outlet in outlets for row in self._file.read(query, outlet)]
        return {(row[0], row[1]): Waiting(row[0], row[1], b"", bool(row[2]), *row[3:]) for row in rows}

    def backlogs(self) -> dict[str, Backlog]:
        rows = self._file.read("SELECT outlet, count(*), min(since_ms) FROM waiting GROUP BY outlet")
        return {outlet: Backlog(count, oldest_ms) for outlet, count, oldest_ms in rows}

    def told(self) -> list[Told]:
        return [Told(*row) for row in self._file.read("SELECT outlet, key, about FROM told")]

    def forget(self, places: Sequence[tuple[str, str]]) -> None:
        """What these outlets know of these keys."""
        self._file.write(lambda db: db.executemany(_FORGET, places))

    def keep_outlets(self, outlets: set[str]) -> None:
        """What waits for those that are no more is dropped."""

        def drop(db: sqlite3.Connection) -> None:
            known = {row[0] for row in db.execute("SELECT outlet FROM waiting UNION SELECT outlet FROM told")}
            for outlet in known - outlets:
                db.execute("DELETE FROM waiting WHERE outlet = ?", (outlet,))
                db.execute("DELETE FROM told WHERE outlet = ?", (outlet,))

        self._file.write(drop)

    def put_silence(self, name: str, body: bytes) -> None:
        self._file.write(lambda db: db.execute("INSERT OR REPLACE INTO silences VALUES (?, ?)", (name, body)))

    def drop_silence(self, name: str) -> None:
        self._file.write(lambda db: db.execute("DELETE FROM silences WHERE id = ?", (name,)))

    def silences(self) -> list[bytes]:
        return [row[0] for row in self._file.read("SELECT body FROM silences")]
