"""How a store of any age becomes one of today. What was released is never edited: a change is a new one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from trilens.model.errors import SchemaTooNew
from trilens.store import (
    access_tables,
    cluster_columns,
    event_tables,
    finding_tables,
    fix_tables,
    gpu_tables,
    ledger_pair_tables,
    ledger_tables,
    notification_tables,
    record_tables,
    run_tables,
    schema,
    sql,
    tracked_run_rows,
)

if TYPE_CHECKING:
    from trilens.store.engine import Engine

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Migration:
    """Statements run in order; each may run twice, for a crash may come between it and the versions' rows."""

    version: int
    name: str
    statements: tuple[str, ...]


MIGRATIONS: Final = (
    Migration(
        1,
        "samples, series, metadata, rollups",
        (
            schema.SAMPLES,
            schema.SERIES,
            schema.ACTIVITY,
            schema.METADATA,
            schema.SAMPLES_5M,
            schema.SAMPLES_1H,
            schema.PROGRESS,
            schema.ROLLUP_HOURS,
        ),
    ),
    Migration(
        2,
        "workloads, memberships, phases",
        (record_tables.WORKLOADS, record_tables.MEMBERSHIPS, record_tables.PHASES),
    ),
    Migration(3, "GPUs and their holders", (gpu_tables.GPUS, gpu_tables.GPU_BINDINGS)),
    Migration(4, "events", (event_tables.EVENTS,)),
    Migration(5, "runs, steps, batches, checkpoints", run_tables.ALL),
    Migration(6, "runs of experiment trackers", (tracked_run_rows.TRACKED_RUNS_TABLE,)),
    Migration(7, "the ledger, machines, owners, imported history", ledger_tables.ALL),
    Migration(8, "days of the ledger by two dimensions", ledger_pair_tables.ALL),
    Migration(9, "findings and incidents", finding_tables.ALL),
    Migration(10, "what was done to clusters", (fix_tables.FIXES,)),
    Migration(11, "tokens, and who did what", access_tables.ALL),
    Migration(12, "what people are to be told", (notification_tables.NOTIFICATIONS,)),
    Migration(13, "the cluster of events and of processes of runs", cluster_columns.ALL),
)


def migrate(engine: Engine, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Bring the store up to date; returns its version."""
    _keep_versions(engine)
    found = current_version(engine)
    newest = migrations[-1].version
    if found > newest:
        raise SchemaTooNew(
            f"{engine.where} has schema version {found}; this Trilens knows up to version {newest}"
        )
    due = [migration for migration in migrations if migration.version > found]
    codec = _value_codec(engine) if due else ""
    for migration in due:
        log.info("schema version %d: %s", migration.version, migration.name)
        for statement in migration.statements:
            engine.command(statement.replace("VALUE_CODEC", codec) + _ddl_settings(codec))
    if due:
        versions = pa.array([one.version for one in due], pa.uint32())
        engine.insert_arrow(
            "schema_version", pa.table({"version": versions, "name": [one.name for one in due]})
        )
    return newest


def _keep_versions(engine: Engine) -> None:
    """On a cluster a statement for every node needs every node: only what is missing is made."""
    if engine.cluster is not None:
        there = f"database = {sql.text(engine.database)} AND name = 'schema_version'"
        if len(engine.query_arrow(f"SELECT name FROM system.tables WHERE {there}")):
            return
        engine.command(f"CREATE DATABASE IF NOT EXISTS {sql.identifier(engine.database)}")
    engine.command(schema.SCHEMA_VERSION)


def current_version(engine: Engine) -> int:
    found = engine.query_arrow("SELECT max(version) AS version FROM schema_version")
    return int(found["version"][0].as_py())


def _value_codec(engine: Engine) -> str:
    """The best codec for values that every node of this engine has; see schema.py for what was measured."""
    found = engine.query_arrow(_TAKES_ALP.format(settings=engine.system_table("settings")))
    return "ALP, ZSTD(3)" if found["n"][0].as_py() else "ZSTD(3)"


# Not by the codec: ClickHouse 26.3 to 26.7 have it and not the setting, and allow it in a way of their own.
_TAKES_ALP: Final = (
    "SELECT min(has) AS n FROM "
    "(SELECT countIf(name = 'enable_alp_codec') AS has FROM {settings} GROUP BY hostName())"
)


def _ddl_settings(codec: str) -> str:
    return ", enable_alp_codec = 1" if codec.startswith("ALP") else ""
