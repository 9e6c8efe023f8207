"""The engine: ClickHouse, in this process or on a server, behind three calls: query, insert, command.

Reads, writes, maintenance and KILL QUERY each have connections of their own, so that a slow read delays
neither intake nor its own cancellation. What the engine raises stops here and leaves as an error of ours.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.model.errors import NoDataDirectory, QueryError, StoreDamaged, StoreError, TrilensError
from trilens.store import sql
from trilens.store.backup_manifest import is_backup
from trilens.store.cluster import Cluster
from trilens.store.engine_settings import EngineOptions, server_settings, session_settings
from trilens.store.faults import is_replica_behind, summary, task_of, translate
from trilens.store.kill import Killer
from trilens.store.link_pool import LinkPool
from trilens.store.links import LINK_ERRORS, EmbeddedLink, Link
from trilens.store.lock import DirectoryLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from trilens.model.query import QueryGuard
    from trilens.store.pulse import Pulse

log = logging.getLogger(__name__)

DATABASE: Final = "trilens"
ENGINE_DIR: Final = "engine"  # inside the data directory, beside our lock file
UNAVAILABLE_NODES: Final = {"skip_unavailable_shards": 1}  # one that is away is no reason to know nothing
_BEHIND_TRIES: Final = 20  # of a change that a replica is not ready for,
_BEHIND_S: Final = 1.0  # each so long after the one before
_ASIDE_S: Final = 5  # for a question that only adds to an error
_OWNER_ALONE: Final = 0o700  # of a directory that is made here: who has accounts on the machine is not known
_MAX_DAMAGED_PARTS: Final = 16  # set aside in one read before giving up


class Engine:
    """Thread-safe. Made by `Engine.open`."""

    def __init__(
        self,
        where: str,
        options: EngineOptions,
        connect: Callable[[], Link],
        embedded: bool,
        database: str = DATABASE,
        cluster: Cluster | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self.where = where
        self.database = database
        self.options = options
        self.embedded = embedded
        self.cluster = cluster
        self._pulse = pulse
        self._connect = connect
        self._pool = LinkPool(self._connected, options.readers)
        self._at_end = ExitStack()
        self._closed = False
        self._inserts: Counter[str] = Counter()
        self._commands = 0
        self._write_lock = threading.Lock()
        self._maintain_lock = threading.Lock()
        try:
            self._writer = self._pool.link()
            self._maintainer = self._pool.link()
            self._killer = Killer(self._pool.link())
        except BaseException:
            self._pool.close()
            raise

    @classmethod
    def open(cls, where: str | Path, options: EngineOptions | None = None) -> Engine:
        """A server for an http(s) URL, else the embedded engine in that directory, made if missing."""
        options = options or EngineOptions()
        if isinstance(where, str) and "://" in where:
            return cls._on_a_server(where, options)
        return cls._embedded(Path(where), options)

    @classmethod
    def _on_a_server(cls, url: str, options: EngineOptions) -> Engine:
        # Slow imports, and often not needed.
        from trilens.store.pulse import Pulse
        from trilens.store.server_link import ServerLink, ServerTarget, make_database

        target = ServerTarget(url, options.username, options.password)
        cluster = Cluster(options.cluster, target.database) if options.cluster is not None else None
        settings = session_settings(options)
        if cluster is not None:
            settings |= cluster.settings | {"insert_quorum": options.insert_quorum}
            # Before the client gives up, which waits a little longer: the server's answer names who is late.
            settings["distributed_ddl_task_timeout"] = int(options.query_timeout_s)
        pulse = Pulse(target.root)

        def connect() -> Link:
            return ServerLink(target, settings, options.query_timeout_s, pulse)

        with ExitStack() as undo:
            undo.callback(pulse.stop)
            try:
                make_database(target, settings, options.query_timeout_s, pulse)
            except LINK_ERRORS as e:
                raise translate(e, f"connecting to {target}") from e
            engine = cls(str(target), options, connect, False, target.database, cluster, pulse)
            engine._at_end = undo.pop_all()
        return engine

    @classmethod
    def _embedded(cls, directory: Path, options: EngineOptions) -> Engine:
        path = directory / ENGINE_DIR
        if not path.exists() and is_backup(directory):
            raise NoDataDirectory(f"{directory} is a backup", hint=f"trilens restore {directory} --data DIR")
        try:
            directory.mkdir(_OWNER_ALONE, parents=True, exist_ok=True)
            path.mkdir(_OWNER_ALONE, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as e:
            raise NoDataDirectory(
                f"cannot make the data directory {directory}: that is a file, or below one",
                hint="of a backup in a tar file trilens restore makes one",
            ) from e
        except OSError as e:
            raise NoDataDirectory(f"cannot make the data directory {directory}: {e.strerror}") from e
        settings = server_settings(options) | session_settings(options)

        def connect() -> Link:
            return EmbeddedLink(path, DATABASE, settings)

        with ExitStack() as undo:
            undo.callback(DirectoryLock(directory).release)
            engine = cls(str(directory), options, connect, embedded=True)
            engine._at_end = undo.pop_all()
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
        with self._write_lock, self._changing(f"writing to {table}"):
            self._check_may_write()
            try:
                self._writer.insert(table, rows)
            finally:  # what fails may have been written all the same
                self._inserts[table] += 1

    def command(self, statement: str) -> None:
        """A statement without a result: DDL, OPTIMIZE, ALTER."""
        statements = self.cluster.statements(statement) if self.cluster is not None else [statement]
        doing = "running " + " ".join(statement.split()[:3])
        with self._maintain_lock, self._changing(doing):
            try:
                for each in statements:
                    self._change(each)
            except LINK_ERRORS as e:
                if not (late := self._unfinished(e)):
                    raise
                said = f"not done on {', '.join(late)}: {summary(str(e))}"
                raise StoreError(f"the engine failed while {doing}: {said}") from e
            finally:
                self._commands += 1

    def _change(self, statement: str) -> None:
        for tries_left in reversed(range(_BEHIND_TRIES)):
            self._check_may_write()
            try:
                self._maintainer.command(statement)
                break
            except LINK_ERRORS as e:
                if not tries_left or not is_replica_behind(e):
                    raise
            time.sleep(_BEHIND_S)

    def _unfinished(self, fault: Exception) -> list[str]:
        """The nodes that a statement for every node waited for in vain, as far as the engine says."""
        task = task_of(fault) if self.cluster is not None else None
        if task is None:
            return []
        try:
            found = self.query_arrow(
                "SELECT DISTINCT ifNull(host, '') AS node FROM system.distributed_ddl_queue "
                f"WHERE entry = {sql.text(task)} AND ifNull(toString(status), '') != 'Finished' "
                "ORDER BY node",
                settings={"max_execution_time": _ASIDE_S},
            )
        except TrilensError as e:  # what is to be told is the fault itself
            log.info("which nodes did not do it is not known", extra={"error": str(e)})
            return []
        return [node for node in found["node"].to_pylist() if node]

    def _check_may_write(self) -> None:
        if self.options.may_write is not None and not self.options.may_write():
            raise StoreError("another server works by now: nothing is written from here")

    def system_table(self, name: str) -> str:
        """What to read to know of every node, together with the setting UNAVAILABLE_NODES."""
        return self.cluster.system(name) if self.cluster is not None else f"system.{name}"

    def part_of(self, table: str) -> str:
        """The table whose rows lie on the node that is asked; on a single server, the table itself."""
        return self.cluster.part_of(table) if self.cluster is not None else table

    @contextmanager
    def held_still(self) -> Iterator[Link]:
        """Nothing is written or changed meanwhile, other than by who is handed this link; reads of others,
        which may take all the readers, are not waited for."""
        with self._maintain_lock, self._write_lock, self._translated("holding still"):
            yield self._maintainer

    def changes(self, table: str) -> tuple[int, int]:
        """Another one once something was written to it, or any table was changed otherwise, from here."""
        return self._inserts[table], self._commands

    def shards(self) -> int:
        """In how many parts large tables lie, about as large as each other."""
        if self.cluster is None:
            return 1
        found = self.query_arrow(
            "SELECT max(shard_num) AS shards FROM system.clusters "
            f"WHERE cluster = {sql.text(self.cluster.name)}"
        )
        return max(1, int(found["shards"][0].as_py()))

    @property
    def silence(self) -> str | None:
        """Why nothing is asked of it now, in words: a server that does not answer at all."""
        return self._pulse.silence if self._pulse is not None else None

    @property
    def queries_running(self) -> int:
        return self._killer.watched

    def close(self) -> None:
        """Cancel what runs, then let go of the directory. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._killer.close()
        self._pool.end_reads()
        with self._maintain_lock, self._write_lock:
            self._pool.close()
        self._at_end.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _query_once(
        self, statement: str, guard: QueryGuard | None, settings: Mapping[str, int | float]
    ) -> pa.Table:
        tag = guard.query_id if guard is not None else f"trilens-{uuid.uuid4().hex}"
        with self._pool.reader(guard) as link, self._translated("reading", guard):
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

    def _connected(self) -> Link:
        with self._translated(f"connecting to {self.where}"):
            return self._connect()

    @contextmanager
    def _translated(self, doing: str, guard: QueryGuard | None = None) -> Iterator[None]:
        if self._closed:
            raise StoreError("the store is closed")
        try:
            yield
        except LINK_ERRORS as e:
            raise translate(e, doing, guard) from e

    @contextmanager
    def _changing(self, doing: str) -> Iterator[None]:
        """What goes wrong is a StoreError, after which who writes tries again; what took too long, too."""
        try:
            with self._translated(doing):
                yield
        except QueryError as e:
            raise StoreError(f"the engine failed while {doing}: {e.message}") from e

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
