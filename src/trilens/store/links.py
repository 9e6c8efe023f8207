"""One connection to the engine: the embedded one through chdb, a server through clickhouse-connect.

Both speak the same SQL and Arrow, and that is all the rest of the store knows. clickhouse-connect can drive
chdb too, but it copies every result once more (5.8 million rows: 300 ms against 180) and stages every insert
in a temporary file (300,000 rows: 100 ms against 80), for which a read-only container has no place.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlencode, urlsplit

import clickhouse_connect
import numpy as np
import pyarrow as pa
import pyarrow.ipc
from clickhouse_connect.driver.exceptions import ClickHouseError

from trilens.model.errors import ConfigError
from trilens.store.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


# What a link raises when the engine, the disk or the network fails; chdb's own error is a RuntimeError.
LINK_ERRORS: Final = (ClickHouseError, RuntimeError, OSError, pa.ArrowException)
_CREATING = threading.Lock()  # several links open at once, and only one need make the database


class Link(Protocol):
    """Not thread-safe: one statement at a time. Raises whatever its library raises; `Engine` translates."""

    def query(self, sql: str) -> pa.Table: ...

    def insert(self, table: str, rows: pa.Table) -> None: ...

    def command(self, sql: str) -> None: ...

    def close(self) -> None: ...


class EmbeddedLink:
    """chdb. The process holds one engine on one path; every link is a session of it."""

    def __init__(self, path: Path, database: str, settings: Mapping[str, str | int]) -> None:
        import chdb  # a hundred megabytes of library: only who runs the engine loads it

        location = str(path.resolve())
        if "?" in location:
            raise ConfigError(f"the data directory's path may not hold a question mark: {location}")
        connect: Any = chdb.connect  # it has no types
        self._connection = connect(f"{location}?{urlencode(settings)}")
        self.command(f"CREATE DATABASE IF NOT EXISTS {identifier(database)} ENGINE = Atomic")
        self.command(f"USE {identifier(database)}")

    def query(self, sql: str) -> pa.Table:
        result = self._connection.query(sql, "Arrow")
        memory = np.frombuffer(result.get_memview().view(), dtype=np.uint8)
        # The engine's own memory, not a copy. chdb's view does not keep the result alive: the buffer must.
        return pa.ipc.open_file(pa.foreign_buffer(memory.ctypes.data, memory.size, base=result)).read_all()

    def insert(self, table: str, rows: pa.Table) -> None:
        columns = ", ".join(identifier(name) for name in rows.column_names)
        # `Python(rows)` is the argument above: chdb finds it by its name. (Its streaming `send_insert` will
        # not do: on a full disk it reports success.)
        self._connection.query(
            f"INSERT INTO {identifier(table)} ({columns}) SELECT {columns} FROM Python(rows)", "Null"
        )

    def command(self, sql: str) -> None:
        self._connection.query(sql, "Null")

    def close(self) -> None:
        self._connection.close()


class ServerLink:
    """A ClickHouse server's HTTP interface."""

    def __init__(self, target: ServerTarget, settings: Mapping[str, str | int], timeout_s: float) -> None:
        def connect(database: str | None) -> Any:
            return clickhouse_connect.get_client(
                host=target.host,
                port=target.port,
                secure=target.secure,
                username=target.username,
                password=target.password or "",
                database=database,
                settings=dict(settings),
                send_receive_timeout=int(timeout_s) + 30,
                autogenerate_session_id=False,  # a session would run one query at a time
                compress=target.host not in ("localhost", "127.0.0.1", "::1"),
            )

        with _CREATING:
            first = connect(None)
            first.command(f"CREATE DATABASE IF NOT EXISTS {identifier(target.database)}")
            first.close()
        self._client = connect(target.database)

    def query(self, sql: str) -> pa.Table:
        body = self._client.raw_query(sql, fmt="Arrow")
        return pa.ipc.open_file(pa.py_buffer(body)).read_all()

    def insert(self, table: str, rows: pa.Table) -> None:
        self._client.insert_arrow(table, rows)

    def command(self, sql: str) -> None:
        self._client.command(sql)

    def close(self) -> None:
        self._client.close()


class ServerTarget:
    """Where a server is, read from a URL such as http://user:password@host:8123/database."""

    def __init__(self, url: str, username: str | None = None, password: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"not a ClickHouse URL: {url!r}", hint="write it as http://clickhouse:8123/trilens"
            )
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        try:
            self.port = parts.port or (8443 if self.secure else 8123)
        except ValueError as e:
            raise ConfigError(f"not a ClickHouse URL: {url!r}: {e}") from e
        self.database = unquote(parts.path.strip("/")) or "trilens"
        self.username = username or (unquote(parts.username) if parts.username else None)
        self.password = password or (unquote(parts.password) if parts.password else None)

    def __str__(self) -> str:
        return f"http{'s' if self.secure else ''}://{self.host}:{self.port}/{self.database}"
