"""A connection to a ClickHouse server, through clickhouse-connect."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import clickhouse_connect
import pyarrow as pa
import pyarrow.ipc
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import check_env_proxy, get_pool_manager
from urllib3.exceptions import HTTPError

from trilens.model.errors import ConfigError
from trilens.store.links import NobodyAnswers
from trilens.store.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.store.pulse import Pulse

_OF_CLICKHOUSE: Final = "X-ClickHouse-Query-Id"  # on every answer to a statement, and on nobody else's


class ServerLink:
    """A ClickHouse server's HTTP interface. Nobody waits here for a server without a pulse."""

    def __init__(
        self, target: ServerTarget, settings: Mapping[str, str | int], timeout_s: float, pulse: Pulse
    ) -> None:
        self.is_spoilt = False
        self._unless_silent = pulse.unless_silent
        self._root = target.root
        with _server_errors(self._root):
            self._client = self._unless_silent(lambda: _client(target, target.database, settings, timeout_s))

    def query(self, sql: str) -> pa.Table:
        try:
            with _server_errors(self._root):
                body = self._unless_silent(lambda: self._client.raw_query(sql, fmt="Arrow"))
        except TimeoutError:  # the client is still at it
            self.is_spoilt = True
            raise
        return pa.ipc.open_file(pa.py_buffer(body)).read_all()

    def insert(self, table: str, rows: pa.Table) -> None:
        with _server_errors(self._root):
            self._unless_silent(lambda: self._client.insert_arrow(table, rows))

    def command(self, sql: str) -> None:
        with _server_errors(self._root):
            self._unless_silent(lambda: self._client.command(sql))

    def close(self) -> None:
        self._client.close()


def make_database(
    target: ServerTarget, settings: Mapping[str, str | int], timeout_s: float, pulse: Pulse
) -> None:
    """Where it is not there. Raises what a link does."""

    def make() -> None:
        client = _client(target, None, settings, timeout_s)
        try:
            client.command(f"CREATE DATABASE IF NOT EXISTS {identifier(target.database)}")
        finally:
            client.close()

    with _server_errors(target.root):
        pulse.unless_silent(make)


def _client(
    target: ServerTarget, database: str | None, settings: Mapping[str, str | int], timeout_s: float
) -> Any:
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
        pool_mgr=_connections("https" if target.secure else "http", target.host, target.port),
        compress=target.host not in ("localhost", "127.0.0.1", "::1"),
    )


@cache
def _connections(scheme: str, host: str, port: int) -> Any:
    """Of all clients of one server, as the library would share them. A proxy's page to log in at, with 200,
    has kept no rows and changed no table."""
    proxy: dict[str, Any] = {f"{scheme}_proxy": check_env_proxy(scheme, host, port)}
    pool = get_pool_manager(**proxy)
    request = pool.request

    def asked(method: str, url: str, **how: Any) -> Any:
        answer = request(method, url, **how)
        if answer.status == 200 and _OF_CLICKHOUSE not in answer.headers:
            answer.close()
            raise RuntimeError("what answers in its place is no ClickHouse server")
        return answer

    pool.request = asked
    return pool


@contextmanager
def _server_errors(root: str) -> Iterator[None]:
    """The library's errors as chdb's would be, so that the embedded engine need not load it to know them.
    `root` is the server's."""
    try:
        yield
    except ClickHouseError as e:
        if (why := _why_no_connection(e)) is not None:
            raise NobodyAnswers(f"no ClickHouse answers at {root}: {why}") from e
        raise RuntimeError(str(e)) from e


def _why_no_connection(error: BaseException | None) -> str | None:
    """In a few words, out of all that the libraries tell of it; None where it is something else."""
    is_of_http = False
    while error is not None:
        is_of_http = is_of_http or isinstance(error, HTTPError)
        if is_of_http and isinstance(error, socket.gaierror):
            return "its name leads to no address"
        if is_of_http and isinstance(error, ConnectionRefusedError):
            return "the connection is refused"
        if is_of_http and isinstance(error, ConnectionError):
            return "it closes the connection"
        error = error.__cause__ or error.__context__
    return None


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

    @property
    def root(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.root}/{self.database}"
