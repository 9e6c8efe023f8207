"""The engine: ClickHouse, in this process or on a server, behind three calls: query, insert, command.

Reads, writes, maintenance and KILL QUERY each have connections of their own, so that a slow read delays
neither intake nor its own cancellation. What the engine raises stops here and leaves as an error of ours.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreDamaged, StoreError
from trilens.store import sql
from trilens.store.faults import translate
from trilens.store.kill import Killer
from trilens.store.links import LINK_ERRORS, EmbeddedLink, Link
from trilens.store.lock import DirectoryLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from trilens.model.query import QueryGuard

log = logging.getLogger(__name__)

DATABASE: Final = "trilens"
ENGINE_DIR: Final = "engine"  # inside the data directory, beside our lock file
_MIB: Final = 1 << 20
_MERGES_NICE: Final = 5  # who waits for an answer has three times the share of a core that tidying has
_POLL_S: Final = 0.05  # how often a query that waits for a connection looks whether it was cancelled
_MAX_DAMAGED_PARTS: Final = 16  # set aside in one read before giving up


@dataclass(frozen=True, slots=True)
class EngineOptions:
    memory_bytes: int = 1024 * _MIB  # embedded only: all that reads, writes and merges may take together
    query_memory_bytes: int = 768 * _MIB
    mark_cache_bytes: int = 64 * _MIB
    threads: int = 2  # of one query
    merge_threads: int = 2
    readers: int = 4  # reads side by side; more wait
    query_timeout_s: float = 120.0  # of a query without a guard of its own
    username: str | None = None
    password: str | None = None


class Engine:
    """Thread-safe. Made by `Engine.open`."""

    def __init__(
        self, where: str, options: EngineOptions, connect: Callable[[], Link], embedded: bool
    ) -> None:
        self.where = where
        self.options = options
        self.embedded = embedded
        self._connect = connect
        self._links: list[Link] = []
        self._lock: DirectoryLock | None = None
        self._closed = False
        self._readers: queue.LifoQueue[Link | None] = queue.LifoQueue()
        for _ in range(options.readers):
            self._readers.put(None)  # connected on first use: few processes need all of them
        self._inserts: Counter[str] = Counter()
        self._commands = 0
        self._write_lock = threading.Lock()
        self._maintain_lock = threading.Lock()
        try:
            self._writer = self._link()
            self._maintainer = self._link()
            self._killer = Killer(self._link())
        except BaseException:
            self._close_links()
            raise

    @classmethod
    def open(cls, where: str | Path, options: EngineOptions | None = None) -> Engine:
        """A server for an http(s) URL, else the embedded engine in that directory, made if missing."""
        options = options or EngineOptions()
        session = _session_settings(options)
        if isinstance(where, str) and "://" in where:
            from trilens.store.server_link import (
                ServerLink,
                ServerTarget,
            )  # a slow import, and often not needed

            target = ServerTarget(where, options.username, options.password)
            timeout_s = options.query_timeout_s
            return cls(str(target), options, lambda: ServerLink(target, session, timeout_s), embedded=False)
        directory = Path(where)
        path = directory / ENGINE_DIR
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise StoreError(f"cannot make the data directory {directory}: {e.strerror}") from e
        lock = DirectoryLock(directory)
        settings = {**_server_settings(options), **session}
        try:
            engine = cls(
                str(directory), options, lambda: EmbeddedLink(path, DATABASE, settings), embedded=True
            )
        except BaseException:
            lock.release()
            raise
        engine._lock = lock
        return engine

    def query_arrow(
        self,
        statement: str,
        *,
        guard: QueryGuard | None = None,
        settings: Mapping[str, int | float] | None = None,
    ) -> pa.Table:
        """Run a SELECT that has no SETTINGS or FORMAT of its own.

        A part that turns out damaged is set aside (embedded only) and the query runs again without it:
        `damage.find_damage` then tells what is missing.
        """
        for _ in range(_MAX_DAMAGED_PARTS):
            try:
                return self._query_once(statement, guard, settings or {})
            except StoreDamaged as damage:
                if not self.embedded:
                    raise
                self._set_aside(damage)
        return self._query_once(statement, guard, settings or {})

    def insert_arrow(self, table: str, rows: pa.Table) -> None:
        """Durable on return. Rows of one partition become visible together."""
        if rows.num_rows == 0:
            return
        with self._write_lock, self._translated(f"writing to {table}"):
            try:
                self._writer.insert(table, rows)
            finally:  # what fails may have been written all the same
                self._inserts[table] += 1

    def command(self, statement: str) -> None:
        """A statement without a result: DDL, OPTIMIZE, ALTER."""
        with self._maintain_lock, self._translated("running " + " ".join(statement.split()[:3])):
            try:
                self._maintainer.command(statement)
            finally:
                self._commands += 1

    def changes(self, table: str) -> tuple[int, int]:
        """Another one once something was written to it, or any table was changed otherwise, from here."""
        return self._inserts[table], self._commands

    @property
    def queries_running(self) -> int:
        return self._killer.watched

    def close(self) -> None:
        """Cancel what runs, then let go of the directory. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._killer.close()
        for _ in range(self.options.readers):  # each read in flight gives its place back
            self._readers.get()
        with self._write_lock, self._maintain_lock:
            self._close_links()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _query_once(
        self, statement: str, guard: QueryGuard | None, settings: Mapping[str, int | float]
    ) -> pa.Table:
        tag = guard.query_id if guard is not None else f"trilens-{uuid.uuid4().hex}"
        with self._reader(guard) as link, self._translated("reading", guard):
            remaining_s = guard.remaining_s if guard is not None else self.options.query_timeout_s
            limits: dict[str, int | float] = {
                "max_execution_time": round(max(remaining_s, 0.001), 3),
                "max_memory_usage": self.options.query_memory_bytes,
                **settings,
            }
            clause = ", ".join(f"{sql.identifier(name)} = {value}" for name, value in limits.items())
            with self._killer.watching(tag) as running:
                stop = guard.stopping(running.kill) if guard is not None else nullcontext()
                with stop:
                    return link.query(f"{statement}\nSETTINGS {clause}, log_comment = {sql.text(tag)}")

    @contextmanager
    def _reader(self, guard: QueryGuard | None) -> Iterator[Link]:
        while True:
            if guard is not None:
                guard.check()
            if self._closed:
                raise StoreError("the store is closed")
            try:
                link = self._readers.get(timeout=_POLL_S)
                break
            except queue.Empty:
                continue
        try:
            if self._closed:
                raise StoreError("the store is closed")
            link = link or self._link()
            yield link
        except BaseException:
            # chdb puts what a failed query had already given out before the next answer of its connection.
            self._discard(link)
            link = None
            raise
        finally:
            self._readers.put(link)

    def _link(self) -> Link:
        with self._translated(f"connecting to {self.where}"):
            link = self._connect()
        self._links.append(link)
        return link

    def _discard(self, link: Link | None) -> None:
        if link is not None:
            self._links.remove(link)
            link.close()

    def _close_links(self) -> None:
        while self._links:
            self._links.pop().close()

    @contextmanager
    def _translated(self, doing: str, guard: QueryGuard | None = None) -> Iterator[None]:
        if self._closed:
            raise StoreError("the store is closed")
        try:
            yield
        except LINK_ERRORS as e:
            raise translate(e, doing, guard) from e

    def _set_aside(self, damage: StoreDamaged) -> None:
        log.error(
            "setting aside part %s of table %s, which does not read back: %s",
            damage.part,
            damage.table,
            damage.reason,
        )
        try:
            self.command(f"ALTER TABLE {sql.identifier(damage.table)} DETACH PART {sql.text(damage.part)}")
        except StoreError as e:
            # Another read may have been faster, or a merge may have replaced the part: the retry will tell.
            log.info("part %s is not there to be set aside: %s", damage.part, e)


def _server_settings(options: EngineOptions) -> dict[str, str | int]:
    """Of the whole embedded engine, whose defaults are for a machine of its own (90 % of all memory)."""
    return {
        "max_server_memory_usage": options.memory_bytes,
        "mark_cache_size": options.mark_cache_bytes,
        "uncompressed_cache_size": 0,
        "background_pool_size": options.merge_threads,
        "background_merges_mutations_concurrency_ratio": 1,
        "os_threads_nice_value_merge_mutate": _MERGES_NICE,
        "memory_worker_period_ms": 1000,  # it would look twenty times a second how much memory is used
    }


def _session_settings(options: EngineOptions) -> dict[str, str | int]:
    return {
        "max_threads": options.threads,
        "max_query_size": 256 * _MIB,  # thousands of series are asked for by their ids, written out
        "max_insert_threads": 1,  # so that one insert is one part of a partition, seen whole or not at all
        "max_partitions_per_insert_block": 0,  # a backfill may span many days
        "output_format_arrow_compression_method": "none",  # in memory, lz4 doubles the time of a large read
        "output_format_arrow_string_as_string": 1,
    }
