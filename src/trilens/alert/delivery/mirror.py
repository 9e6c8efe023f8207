"""The queue of notifications kept somewhere else as well, for a server whose disk nobody finds after it.

The queue itself is then in memory. Triggers note which rows are touched; the mirror is told of them before
who wrote goes on, so what was promised to be kept is. One that says nothing is waited for only so long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# With what a row is found by, first; bytes become base64 in JSON, and come back by these types.
_ROWS: Final[dict[str, tuple[tuple[str, ...], Any]]] = {
    "waiting": (("outlet", "key"), tuple[str, str, bytes, int, int, int, int]),
    "told": (("outlet", "key"), tuple[str, str, bytes]),
    "silences": (("id",), tuple[str, bytes]),
}


MirroredRow = tuple[str, str, str | None]  # kind, key, and body: None where it is no more


class Mirror(Protocol):
    """Rows by kind and key. Raises StoreError."""

    def load(self) -> Sequence[tuple[str, str, str]]: ...

    def put(self, rows: Sequence[MirroredRow]) -> None: ...


def fill(db: sqlite3.Connection, mirror: Mirror) -> None:
    """With all that is kept there; what changes from now on is noted."""
    for kind, _key, body in mirror.load():
        if kind in _ROWS:
            row = msgspec.json.decode(body, type=_ROWS[kind][1])
            db.execute(f"INSERT INTO {kind} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - names of our own
    db.execute("CREATE TEMP TABLE touched (kind TEXT, key TEXT)")
    db.execute("CREATE INDEX temp.of_touched ON touched (kind, key)")
    for kind, (columns, _) in _ROWS.items():
        for event, which in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            key = f"json_array({', '.join(f'{which}.{column}' for column in columns)})"
            # Not INSERT OR IGNORE: in a trigger the conflict clause of the statement that fired it counts.
            is_new = f"NOT EXISTS (SELECT 1 FROM touched WHERE kind = '{kind}' AND key = {key})"  # noqa: S608
            noting = f"INSERT INTO touched VALUES ('{kind}', {key})"  # noqa: S608
            db.execute(
                f"CREATE TEMP TRIGGER {kind}_{event.lower()} AFTER {event} ON main.{kind} "
                f"WHEN {is_new} BEGIN {noting}; END"
            )
    db.commit()


def take(db: sqlite3.Connection) -> list[MirroredRow]:
    """What was touched since it was last taken, as it is now."""
    touched = db.execute("SELECT kind, key FROM touched").fetchall()
    db.execute("DELETE FROM touched")
    return [(kind, key, _body(db, kind, key)) for kind, key in touched]


def _body(db: sqlite3.Connection, kind: str, key: str) -> str | None:
    columns, _ = _ROWS[kind]
    which = " AND ".join(f"{column} = ?" for column in columns)
    row = db.execute(f"SELECT * FROM {kind} WHERE {which}", msgspec.json.decode(key)).fetchone()  # noqa: S608
    return msgspec.json.encode(row).decode() if row is not None else None
