"""What our statements become on a cluster: read by the engine's own parser, and the same once made."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from trilens.model.errors import StoreError
from trilens.store import schema, sql
from trilens.store.catching_up import catch_up
from trilens.store.cluster import SHARDED, Cluster
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.faults import task_of
from trilens.store.migrations import MIGRATIONS
from trilens.store.retention import Retention, apply_retention
from trilens.store.run_commits import BULKY

CLUSTER = Cluster("gpus", "trilens")
PLAIN = [
    statement.replace("VALUE_CODEC", "ALP, ZSTD(3)")
    for migration in MIGRATIONS
    for statement in (schema.SCHEMA_VERSION, *migration.statements)
]


def test_every_migration_is_read_by_the_engine(embedded: Engine) -> None:
    for plain in PLAIN:
        for statement in CLUSTER.statements(plain):
            assert _read_by(embedded, statement).split()[0] == statement.split()[0]


def test_every_table_is_replicated() -> None:
    made = [one for plain in PLAIN for one in CLUSTER.statements(plain) if "CREATE TABLE" in one]
    for statement in made:
        assert " ON CLUSTER `gpus`" in statement
        assert "ENGINE = Replicated" in statement or "ENGINE = Distributed('gpus', 'trilens', " in statement


def test_records_are_one_table_over_all_shards() -> None:
    [incidents] = CLUSTER.statements(_create("incidents"))
    keeper = "'/clickhouse/trilens/{database}/incidents', '{shard}-{replica}'"
    assert f"ENGINE = ReplicatedReplacingMergeTree({keeper}, version)" in incidents
    [pairs] = CLUSTER.statements(_create("ledger_day_pairs"))
    keeper = "'/clickhouse/trilens/{database}/ledger_day_pairs', '{shard}-{replica}'"
    assert f"ENGINE = ReplicatedMergeTree({keeper})" in pairs


def test_what_grows_with_time_lies_in_shards() -> None:
    local, whole = CLUSTER.statements(_create("samples"))
    assert local.startswith("CREATE TABLE IF NOT EXISTS `trilens`.`samples_local` ON CLUSTER `gpus`")
    assert "ReplicatedMergeTree('/clickhouse/trilens/{database}/{shard}/samples_local', '{replica}')" in local
    assert whole.endswith("ENGINE = Distributed('gpus', 'trilens', 'samples_local', series)")
    assert {table.name for table in BULKY} < SHARDED.keys()


def test_a_column_is_added_to_the_shards_before_the_whole() -> None:
    shards, whole = CLUSTER.statements("ALTER TABLE run_steps ADD COLUMN IF NOT EXISTS a Int64")
    assert (
        shards == "ALTER TABLE `trilens`.`run_steps_local` ON CLUSTER `gpus` ADD COLUMN IF NOT EXISTS a Int64"
    )
    assert whole == "ALTER TABLE `trilens`.`run_steps` ON CLUSTER `gpus` ADD COLUMN IF NOT EXISTS a Int64"


@pytest.mark.parametrize(
    "change",
    [
        "ADD INDEX IF NOT EXISTS i a TYPE minmax",
        "MATERIALIZE INDEX i SETTINGS mutations_sync = 0",
        "MODIFY TTL t",
        "MODIFY SETTING materialize_ttl_recalculate_only = 1",
        "MATERIALIZE TTL",
    ],
)
def test_what_is_of_the_rows_is_done_in_the_shards(embedded: Engine, change: str) -> None:
    [made] = CLUSTER.statements(f"ALTER TABLE samples {change}")
    assert made == f"ALTER TABLE `trilens`.`samples_local` ON CLUSTER `gpus` {change}"
    assert "ON CLUSTER gpus" in _read_by(embedded, made)


@pytest.mark.parametrize("table", ["samples", "incidents"])
def test_settings_are_told_to_every_node(embedded: Engine, table: str) -> None:
    [made] = CLUSTER.statements(f"ALTER TABLE {table} MODIFY SETTING merge_with_ttl_timeout = 1")
    assert "ON CLUSTER gpus" in _read_by(embedded, made)


def test_retention_is_read_by_the_engine(embedded: Engine) -> None:
    """All that it says, as it says it: with its own expressions and settings."""
    there = Shards([])
    with Engine("a server", EngineOptions(), lambda: there, False, cluster=CLUSTER) as engine:
        apply_retention(engine, Retention(*[timedelta(days=n) for n in (11, 12, 13, 14)]))
    changes = [one for one in there.said if one.startswith("ALTER TABLE")]
    assert len(changes) == 9
    for statement in changes:
        assert "_local ON CLUSTER gpus" in " ".join(_read_by(embedded, statement).split())


def test_replicas_of_records_tell_each_other() -> None:
    for plain in (
        "ALTER TABLE incidents ADD COLUMN IF NOT EXISTS a Int64",
        "ALTER TABLE ledger_rows DROP PARTITION ID '202601'",
        "DELETE FROM incidents WHERE to_ms < 5",
        "OPTIMIZE TABLE incidents FINAL",
        "INSERT INTO ledger_days SELECT 1",
    ):
        assert CLUSTER.statements(plain) == [plain]


def test_rows_of_shards_are_deleted_in_each_and_nobody_waits_for_one_that_is_away(embedded: Engine) -> None:
    """It does as the others did when it is back; what is written until then is not to wait for it."""
    soon = " SETTINGS distributed_ddl_task_timeout = 10, "
    soon += "distributed_ddl_output_mode = 'null_status_on_timeout'"
    rows, partition = (
        CLUSTER.statements("DELETE FROM run_steps WHERE commit = 7"),
        CLUSTER.statements("ALTER TABLE samples DROP PARTITION ID '2026'"),
    )
    local = "`trilens`.`run_steps_local` ON CLUSTER `gpus`"
    assert rows == [f"DELETE FROM {local} WHERE commit = 7{soon}"]
    local = "`trilens`.`samples_local` ON CLUSTER `gpus`"
    assert partition == [f"ALTER TABLE {local} DROP PARTITION ID '2026'{soon}"]
    for statement in (*rows, *partition):
        assert "null_status_on_timeout" in _read_by(embedded, statement)


def test_what_nobody_thought_of_is_refused() -> None:
    with pytest.raises(StoreError, match="not known how to do on a cluster: DROP TABLE samples"):
        CLUSTER.statements("DROP TABLE samples")
    with pytest.raises(StoreError, match="table odd"):
        CLUSTER.statements("CREATE TABLE IF NOT EXISTS odd (a UInt8) ENGINE = Memory")


class Heard:
    """A link that only listens."""

    is_spoilt = False

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def query(self, sql: str) -> pa.Table:
        raise NotImplementedError

    def insert(self, table: str, rows: pa.Table) -> None:
        raise NotImplementedError

    def command(self, sql: str) -> None:
        self.said.append(sql)

    def close(self) -> None:
        pass


class Shards(Heard):
    """A node of a cluster whose tables were made, and keep their rows for ever."""

    def query(self, sql: str) -> pa.Table:
        if "system.tables" not in sql:
            return pa.table({"position": pa.array([], pa.int64())})
        names = ["samples_local", "samples_5m_local", "samples_1h_local"]
        return pa.table({"name": names, "ddl": [""] * 3, "is_empty": [False] * 3})

    def insert(self, table: str, rows: pa.Table) -> None:
        pass


def test_a_single_server_is_told_each_statement_as_it_stands() -> None:
    said: list[str] = []
    with Engine("a server", EngineOptions(), lambda: Heard(said), embedded=False) as engine:
        for plain in PLAIN:
            engine.command(plain)
    assert said == PLAIN


class Behind(Heard):
    """A replica that others have told to change the same table."""

    def __init__(self, said: list[str], turns: int, code: int) -> None:
        super().__init__(said)
        self._turns = turns
        self._code = code

    def command(self, sql: str) -> None:
        super().command(sql)
        if len(self.said) <= self._turns:
            raise RuntimeError(f"Code: {self._code}. DB::Exception: Metadata on replica is not up to date")


@pytest.mark.parametrize(
    ("turns", "code", "tries", "is_done"), [(2, 517, 3, True), (99, 517, 20, False), (1, 60, 1, False)]
)
def test_a_change_waits_for_a_replica_that_has_others_to_make(
    monkeypatch: pytest.MonkeyPatch, turns: int, code: int, tries: int, is_done: bool
) -> None:
    monkeypatch.setattr("trilens.store.engine._BEHIND_S", 0)
    said: list[str] = []
    with (
        Engine("a server", EngineOptions(), lambda: Behind(said, turns, code), embedded=False) as engine,
        nullcontext() if is_done else pytest.raises(StoreError),
    ):
        engine.command("ALTER TABLE incidents ADD COLUMN IF NOT EXISTS x UInt8")
    assert len(said) == tries


def test_a_write_that_took_too_long_is_tried_again_like_any_other() -> None:
    """Whoever writes waits for a StoreError, not for that of a query."""
    with (
        Engine("a server", EngineOptions(), lambda: Behind([], 9, 159), embedded=False) as engine,
        pytest.raises(StoreError, match="running DELETE FROM incidents"),
    ):
        engine.command("DELETE FROM incidents WHERE to_ms < 5")


class Away(Heard):
    """A node that waits in vain for others to change their tables."""

    def __init__(self, nodes: list[str] | None) -> None:
        super().__init__([])
        self._nodes = nodes

    def command(self, sql: str) -> None:
        raise RuntimeError(LATE)

    def query(self, sql: str) -> pa.Table:
        assert "system.distributed_ddl_queue" in sql
        assert "entry = 'query-0000000012'" in sql
        if self._nodes is None:
            raise RuntimeError("Code: 999. DB::Exception: Coordination error: Connection loss")
        return pa.table({"node": self._nodes})


LATE = (
    "Code: 159. DB::Exception: Distributed DDL task /clickhouse/task_queue/ddl/query-0000000012 is not "
    "finished on 1 of 4 hosts (0 of them are currently executing the task, 0 are inactive). They are going "
    "to execute the query in background. Was waiting for 180.7 seconds, which is longer than "
    "distributed_ddl_task_timeout."
)


@pytest.mark.parametrize(
    ("nodes", "named"), [(["ch-2", "ch-4"], "not done on ch-2, ch-4: "), ([], ""), (None, "")]
)
def test_a_change_that_a_node_did_not_make_says_which(nodes: list[str] | None, named: str) -> None:
    with (
        Engine("http://ch-1", EngineOptions(), lambda: Away(nodes), False, cluster=CLUSTER) as engine,
        pytest.raises(StoreError) as told,
    ):
        engine.command("ALTER TABLE samples MODIFY SETTING merge_with_ttl_timeout = 1")
    assert "running ALTER TABLE samples" in told.value.message
    assert "is not finished on 1 of 4 hosts" in told.value.message
    assert named in told.value.message
    assert ("not done on" in told.value.message) == bool(named)


def test_a_change_of_tables_ends_before_the_client_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what the server says of the nodes that are late would be said to nobody."""
    told: dict[str, Any] = {}

    def refuse(_target: object, settings: dict[str, Any], timeout_s: float, _pulse: object) -> None:
        told.update(settings, timeout_s=timeout_s)
        raise RuntimeError("no such server")

    monkeypatch.setattr("trilens.store.server_link.make_database", refuse)
    with pytest.raises(StoreError):
        Engine.open("http://127.0.0.1:1/x", EngineOptions(query_timeout_s=40.0, cluster="main"))
    assert told["distributed_ddl_task_timeout"] <= told["timeout_s"] == 40


@pytest.mark.parametrize(
    ("said", "task"),
    [
        (LATE, "query-0000000012"),
        (
            "Code: 159. DB::Exception: Watching task /clickhouse/repl-1s1r/task_queue/ddl/query-0000000003 "
            "is executing longer than distributed_ddl_task_timeout (=180) seconds. 1 host is unfinished",
            "query-0000000003",
        ),
        ("Code: 159. DB::Exception: SYNC REPLICA trilens.x: command timed out", None),
        ("Code: 60. DB::Exception: task /clickhouse/ddl/query-0000000003 met no table", None),
    ],
)
def test_what_a_statement_for_every_node_is_called(said: str, task: str | None) -> None:
    assert task_of(RuntimeError(said)) == task


def test_the_engine_can_be_asked_which_nodes_are_late(embedded: Engine) -> None:
    asked: list[str] = []

    class Asked(Away):
        def query(self, sql: str) -> pa.Table:
            asked.append(sql.partition("\nSETTINGS")[0])
            return super().query(sql)

    with (
        Engine("http://ch-1", EngineOptions(), lambda: Asked([]), False, cluster=CLUSTER) as engine,
        pytest.raises(StoreError),
    ):
        engine.command("ALTER TABLE samples MODIFY SETTING merge_with_ttl_timeout = 1")
    ((question),) = asked
    assert embedded.query_arrow(f"EXPLAIN SYNTAX {question}").num_rows


class Replica(Heard):
    """A node with some tables, which has all of them but those that are `behind`."""

    def __init__(self, said: list[str], behind: str = "none") -> None:
        super().__init__(said)
        self._behind = behind

    def query(self, sql: str) -> pa.Table:
        assert "engine LIKE 'Replicated%'" in sql
        return pa.table({"name": ["run_positions", "run_steps_local"]})

    def command(self, sql: str) -> None:
        super().command(sql)
        if self._behind in sql:
            raise RuntimeError("Code: 159. DB::Exception: SYNC REPLICA trilens.x: command timed out")


def test_a_node_has_all_before_anybody_reads_it(embedded: Engine) -> None:
    """Positions that it has not copied yet would be missing, and acknowledged records be deleted."""
    said: list[str] = []
    with Engine("a server", EngineOptions(), lambda: Replica(said), False, cluster=CLUSTER) as engine:
        catch_up(engine)
    assert said == [
        "SYSTEM SYNC REPLICA `trilens`.`run_positions` LIGHTWEIGHT",
        "SYSTEM SYNC REPLICA `trilens`.`run_steps_local` LIGHTWEIGHT",
    ]
    for statement in said:
        assert _read_by(embedded, statement).startswith("SYSTEM SYNC REPLICA")
    with Engine("a server", EngineOptions(), lambda: Replica(said), embedded=False) as alone:
        catch_up(alone)
    assert len(said) == 2


def test_on_a_node_that_does_not_catch_up_nothing_starts() -> None:
    node = Replica([], behind="run_steps_local")
    with (
        Engine("http://ch-1", EngineOptions(), lambda: node, False, cluster=CLUSTER) as engine,
        pytest.raises(StoreError, match="the ClickHouse node at http://ch-1 has not copied all of run_steps"),
    ):
        catch_up(engine)


def _read_by(embedded: Engine, statement: str) -> str:
    read: str = embedded.query_arrow(f"SELECT formatQuery({sql.text(statement)}) AS made")["made"][0].as_py()
    return read


def _create(table: str) -> str:
    return next(one for one in PLAIN if f"CREATE TABLE IF NOT EXISTS {table}\n" in one)
