"""One connection to the engine, and the embedded kind of it, through chdb; `server_link` has the other.

Both speak the same SQL and Arrow, and that is all the rest of the store knows. clickhouse-connect can drive
chdb too, but it copies every result once more (5.8 million rows: 300 ms against 180) and stages every insert
in a temporary file, for which a read-only container has no place.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from trilens.model.errors import ConfigError
from trilens.store.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# What a link raises when the engine, the disk or the network fails; the engine's own is a RuntimeError.
LINK_ERRORS: Final = (RuntimeError, OSError, pa.ArrowException)


class NobodyAnswers(ConnectionError):
    """In words for people: at an address there is no server, or none that lets us connect."""


class Link(Protocol):
    """Not thread-safe: one statement at a time. Raises whatever its library raises; `Engine` translates."""

    @property
    def is_spoilt(self) -> bool:
        """By a query that failed: no other may be asked."""

    def query(self, sql: str) -> pa.Table: ...

    def insert(self, table: str, rows: pa.Table) -> None: ...

    def command(self, sql: str) -> None: ...

    def close(self) -> None: ...


@contextmanager
def memory_file() -> Iterator[tuple[BinaryIO, str]]:
    """A file that lies on no disk, and the name by which the engine finds it."""
    with os.fdopen(os.memfd_create("rows"), "wb", buffering=0) as file:
        yield file, f"/proc/self/fd/{file.fileno()}"


class EmbeddedLink:
    """chdb. The process holds one engine on one path; every link is a session of it."""

    def __init__(self, path: Path, database: str, settings: Mapping[str, str | int]) -> None:
        import chdb  # a hundred megabytes of library: only who runs the engine loads it

        location = str(path.resolve())
        if "?" in location:
            raise ConfigError(f"the data directory's path may not hold a question mark: {location}")
        self.is_spoilt = False
        connect: Any = chdb.connect  # it has no types
        self._connection = connect(f"{location}?{urlencode(settings)}")
        self.command(f"CREATE DATABASE IF NOT EXISTS {identifier(database)} ENGINE = Atomic")
        self.command(f"USE {identifier(database)}")

    def query(self, sql: str) -> pa.Table:
        try:
            result = self._connection.query(sql, "Arrow")
        except BaseException:
            # What it had already given out would come before the next answer of this connection.
            self.is_spoilt = True
            raise
        memory = np.frombuffer(result.get_memview().view(), dtype=np.uint8)
        # The engine's own memory, not a copy. chdb's view does not keep the result alive: the buffer must.
        return pa.ipc.open_file(pa.foreign_buffer(memory.ctypes.data, memory.size, base=result)).read_all()

    def insert(self, table: str, rows: pa.Table) -> None:
        columns = ", ".join(identifier(name) for name in rows.column_names)
        with memory_file() as (file, path):
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
            # Not `FROM Python(rows)`, as fast as it is: the engine's threads would then wait for Python's
            # lock. Nor chdb's streaming `send_insert`: on a full disk it reports success.
            self.command(
                f"INSERT INTO {identifier(table)} ({columns}) SELECT {columns} FROM file('{path}', 'Arrow') "
                "SETTINGS schema_inference_use_cache_for_file = 0"  # the next file has the same name
            )

    def command(self, sql: str) -> None:
        self._connection.query(sql, "Null")

    def close(self) -> None:
        self._connection.close()
