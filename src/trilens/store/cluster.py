"""What our statements become on a cluster of ClickHouse servers: the one place that knows of it.

Tables are declared once, as they are on a single server. On a cluster every node has all records (one
replicated table over all shards), so that what joins them reads its own disk. What grows with every sample or
step lies in shards: `X_local` on each node, and `X`, through which it is read and written
(docs/decisions/clickhouse-cluster.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trilens.model.errors import StoreError
from trilens.store.sql import identifier, text

# By what rows are spread. Rows of one key always meet in one shard, so merges there see all of them.
_OF_A_RANK: Final = "cityHash64(run, rank)"  # a run of thousands of ranks is read by all shards at once
SHARDED: Final = {
    "samples": "series",
    "samples_5m": "series",
    "samples_1h": "series",
    "run_steps": _OF_A_RANK,
    "run_batches": _OF_A_RANK,
    "run_samples": _OF_A_RANK,
    "run_artifacts": _OF_A_RANK,
}

_DATABASE: Final = re.compile(r"\s*CREATE DATABASE IF NOT EXISTS `?\w+`?")
_CREATE: Final = re.compile(r"\s*CREATE TABLE IF NOT EXISTS (\w+)\s*(.*)", re.DOTALL)
_ENGINE: Final = re.compile(r"\bENGINE = (\w*)MergeTree\b(?:\(([^()]*)\))?")
_ALTER: Final = re.compile(r"\s*ALTER TABLE `?(\w+)`? (.*)", re.DOTALL)
_ROWS: Final = re.compile(r"\s*(DELETE FROM|OPTIMIZE TABLE|TRUNCATE TABLE) `?(\w+)`?(.*)", re.DOTALL)
_SYNC: Final = "SYSTEM SYNC REPLICA "
# A node that is away deletes when it is back: it has the statement from the keeper, and nobody waits for it.
_SOON: Final = (
    " SETTINGS distributed_ddl_task_timeout = 10, distributed_ddl_output_mode = 'null_status_on_timeout'"
)
_COLUMN: Final = re.compile(r"(ADD|DROP|MODIFY|RENAME) COLUMN\b")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One of ClickHouse's `remote_servers`, and the database in it."""

    name: str
    database: str

    def statements(self, plain: str) -> list[str]:
        """What to run instead, one after the other; each may run twice, as the plain one may."""
        if _DATABASE.fullmatch(plain):
            return [f"{plain} {self._everywhere}"]
        if found := _CREATE.fullmatch(plain):
            return self._create(*found.groups())
        if found := _ALTER.fullmatch(plain):
            return self._alter(*found.groups())
        if found := _ROWS.fullmatch(plain):
            command, table, rest = found.groups()
            if table not in SHARDED:
                return [
                    plain
                ]  # a replicated table tells its replicas, and those of records are on every node
            return [f"{command} {self._local(table)}{rest}{_SOON if command == 'DELETE FROM' else ''}"]
        if plain.lstrip().startswith(("INSERT INTO ", _SYNC)):
            return [plain]
        raise StoreError(f"not known how to do on a cluster: {' '.join(plain.split())[:80]}")

    def sync(self, table: str) -> str:
        """Waits until the node that is asked has all parts of it that any has."""
        return f"{_SYNC}{identifier(self.database)}.{identifier(table)} LIGHTWEIGHT"

    def system(self, table: str) -> str:
        """A system table of all nodes together."""
        return f"clusterAllReplicas({text(self.name)}, system.{table})"

    def part_of(self, table: str) -> str:
        """The table whose rows lie on the node that is asked."""
        return f"{table}_local" if table in SHARDED else table

    @property
    def settings(self) -> dict[str, str | int]:
        """Of every connection, beside what a single server is given."""
        return {
            "distributed_foreground_insert": 1,  # else an insert is answered before any shard has it
            # Reads go where writes went, as long as that replica answers: a write is seen by who made it.
            "load_balancing": "in_order",
            "lightweight_deletes_sync": 1,  # a replica that is away deletes when it is back
            # What expires is found by asking another table. Replicas may find a row more or less of it; the
            # first one's part is the part of all of them.
            "allow_nondeterministic_mutations": 1,
            "receive_timeout": 120,  # of a node that says nothing; of one that catches up, for each table
        }

    @property
    def _everywhere(self) -> str:
        return f"ON CLUSTER {identifier(self.name)}"

    def _named(self, table: str) -> str:
        return f"{identifier(self.database)}.{identifier(table)} {self._everywhere}"

    def _local(self, table: str) -> str:
        return self._named(f"{table}_local")

    def _create(self, table: str, rest: str) -> list[str]:
        local = self.part_of(table)
        # The name of a replica is its own in its shard only, as most clusters have it.
        path, replica = (
            ("{shard}/" + local, "{replica}") if table in SHARDED else (local, "{shard}-{replica}")
        )
        keeper = f"{text('/clickhouse/trilens/{database}/' + path)}, {text(replica)}"

        def replicated(engine: re.Match[str]) -> str:
            kind, arguments = engine.groups()
            return f"ENGINE = Replicated{kind}MergeTree({keeper}{f', {arguments}' if arguments else ''})"

        body, engines = _ENGINE.subn(replicated, rest)
        if engines != 1:
            raise StoreError(f"not known how to make the table {table} on a cluster")
        made = [f"CREATE TABLE IF NOT EXISTS {self._named(local)}\n{body}"]
        if table in SHARDED:
            of = f"{text(self.name)}, {text(self.database)}, {text(local)}, {SHARDED[table]}"
            made.append(
                f"CREATE TABLE IF NOT EXISTS {self._named(table)} "
                f"AS {identifier(self.database)}.{identifier(local)} ENGINE = Distributed({of})"
            )
        return made

    def _alter(self, table: str, change: str) -> list[str]:
        if table not in SHARDED:
            # A replicated table has its columns and indices in the keeper; settings each node has its own.
            everywhere = f"ALTER TABLE {self._named(table)} {change}"
            return [everywhere if change.startswith("MODIFY SETTING") else f"ALTER TABLE {table} {change}"]
        soon = _SOON if change.startswith("DROP PARTITION") else ""
        changes = [f"ALTER TABLE {self._local(table)} {change}{soon}"]
        if _COLUMN.match(change):
            changes.append(f"ALTER TABLE {self._named(table)} {change}")
        return changes
