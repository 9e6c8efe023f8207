"""Reads and writes of a store whose tables are those of a cluster, by an engine that is its only node.

Other tests of the store run on it too: some always, most in `make test-long` (sizes.py).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trilens.store.damage import find_damage
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.horizon import Horizon
from trilens.store.inserts import insert_samples
from trilens.store.migrations import migrate
from trilens.store.options import StoreOptions
from trilens.store.retention import Retention, apply_retention
from trilens.store.rollups import RollupJob
from trilens.store.run_expiry import delete_expired_runs
from trilens.store.store import Store

if TYPE_CHECKING:
    import pytest

CLUSTER = "gpus"  # conftest.py
HOUR_MS = 3_600_000
T0 = 1_900_000_000_000 // HOUR_MS * HOUR_MS


def told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(engine._maintainer, "command", said.append)
    return said


def put_samples(engine: Engine, series: int) -> None:
    times = np.arange(T0 + 15_000, T0 + HOUR_MS + 1, 15_000)
    ids = np.repeat(np.arange(series, dtype=np.uint64), len(times))
    rows = {
        "metric": pa.array(["power"] * len(ids)),
        "series": pa.array(ids),
        "t": pa.array(np.tile(times, series)),
        "v": pa.array(np.ones(len(ids))),
    }
    insert_samples(engine, Horizon(), pa.table(rows))


def test_a_start_that_finds_all_tables_tells_the_nodes_nothing(
    on_cluster: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = told(on_cluster, monkeypatch)
    migrate(on_cluster)
    assert said == []


def test_samples_become_rollups(on_cluster: Engine) -> None:
    put_samples(on_cluster, 5)
    RollupJob(on_cluster, Horizon()).run(T0 + 3 * HOUR_MS, 0)
    found = on_cluster.query_arrow("SELECT sum(samples) AS n FROM samples_5m_local")
    assert found["n"].to_pylist() == [5 * 240]


def test_retention_is_that_of_the_shards(on_cluster: Engine) -> None:
    days = [timedelta(days=n) for n in (11, 12, 13, 14)]
    assert apply_retention(on_cluster, Retention(*days)) == ("samples", "samples_5m", "samples_1h")
    assert apply_retention(on_cluster, Retention(*days)) == ()
    ddl = on_cluster.query_arrow("SHOW CREATE TABLE samples_local")["statement"][0].as_py()
    assert f"toIntervalSecond({11 * 86_400})" in ddl


def test_old_steps_go_by_partitions(on_cluster: Engine) -> None:
    columns = "run, step, rank, attempt, n, start_us, us, phases, commit"
    for commit in (T0 * 1000, (T0 + 100 * 24 * HOUR_MS) * 1000):
        on_cluster.command(
            f"INSERT INTO run_steps ({columns}) VALUES ('r', 0, 3, 0, 0, 1, 9, map('data', 5), {commit})"
        )
    found = on_cluster.query_arrow("SELECT sum(data_us) AS us FROM run_steps")
    assert found["us"].to_pylist() == [10]  # what is made of a row is made in its shard
    after_first = T0 + 50 * 24 * HOUR_MS
    assert delete_expired_runs(on_cluster, 0, after_first) == 1
    assert on_cluster.query_arrow("SELECT count() AS n FROM run_steps_local")["n"].to_pylist() == [1]


def test_nothing_is_lost_where_replicas_have_all_parts(on_cluster: Engine) -> None:
    assert find_damage(on_cluster) == []
    assert on_cluster.shards() == 1


def test_a_whole_store_opens_and_says_how_large_it_is(database_on_cluster: str) -> None:
    with Engine.open(database_on_cluster, EngineOptions(cluster=CLUSTER)) as engine:
        migrate(engine)
        put_samples(engine, 2)
    store = Store.open(StoreOptions(url=database_on_cluster, cluster=CLUSTER))
    try:
        found = store.size()
        assert found.samples == 480
        assert found.disk_bytes > 0
    finally:
        store.close()
