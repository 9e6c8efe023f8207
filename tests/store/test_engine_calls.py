"""Query, insert, command, limits and cancellation, on both sizes of the engine."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from trilens.model.errors import ConfigError, QueryCancelled, QueryTimeout, QueryTooLarge, StoreError
from trilens.model.query import QueryGuard
from trilens.store import server_link
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = "SELECT count() AS n FROM numbers(1000000000000) WHERE sipHash64(number) = 1"


def test_rows_come_back_as_they_went_in(new_engine: Engine) -> None:
    new_engine.command(
        "CREATE TABLE x (a UInt64, b String, m Map(String, String)) ENGINE = MergeTree ORDER BY a"
    )
    rows = pa.table(
        {
            "a": pa.array([2, 2**64 - 1], pa.uint64()),
            "b": ["it's \\ ", "\u00e9\n"],
            "m": pa.array([[("k", "v")], []], pa.map_(pa.string(), pa.string())),
        }
    )
    new_engine.insert_arrow("x", rows)
    assert new_engine.query_arrow("SELECT a, b, m FROM x ORDER BY a").to_pydict() == rows.to_pydict()


def test_an_empty_answer_keeps_its_columns(engine: Engine) -> None:
    table = engine.query_arrow("SELECT series, t, v FROM samples")
    assert (table.num_rows, table.column_names) == (0, ["series", "t", "v"])


def test_an_answer_outlives_later_queries_and_the_engine(location: str | Path) -> None:
    with Engine.open(location) as engine:
        first = engine.query_arrow("SELECT number AS n FROM numbers(1000000)")
        for shift in range(4):
            engine.query_arrow(f"SELECT number + {shift} AS n FROM numbers(1000000)")
    assert np.array_equal(first["n"].to_numpy(), np.arange(1_000_000))


def test_a_query_ends_at_its_time_limit(engine: Engine) -> None:
    with pytest.raises(QueryTimeout):
        engine.query_arrow(ENDLESS, guard=QueryGuard(timeout_s=0.3))


def test_cancel_stops_a_running_query(engine: Engine) -> None:
    guard = QueryGuard(timeout_s=60)
    timer = threading.Timer(0.3, guard.cancel)
    timer.start()
    with pytest.raises(QueryCancelled):
        engine.query_arrow(ENDLESS, guard=guard)
    timer.join()


def test_cancel_stops_a_query_that_has_hardly_begun(engine: Engine) -> None:
    for _ in range(5):
        guard = QueryGuard(timeout_s=60)
        canceller = threading.Thread(target=guard.cancel)
        canceller.start()
        with pytest.raises(QueryCancelled):
            engine.query_arrow(ENDLESS, guard=guard)
        canceller.join()


def test_a_query_cancelled_while_it_waits_for_a_connection(location: str | Path) -> None:
    with Engine.open(location, EngineOptions(readers=1)) as engine:
        holder = QueryGuard(timeout_s=60)
        outcome: list[type[BaseException]] = []

        def hold() -> None:
            with pytest.raises(QueryCancelled) as caught:
                engine.query_arrow(ENDLESS, guard=holder)
            outcome.append(caught.type)

        thread = threading.Thread(target=hold)
        thread.start()
        waiting = QueryGuard(timeout_s=0.3)
        while not engine.queries_running:
            pass
        with pytest.raises(QueryTimeout):
            engine.query_arrow("SELECT 1", guard=waiting)
        holder.cancel()
        thread.join()
        assert outcome == [QueryCancelled]


def test_closing_stops_what_runs(location: str | Path) -> None:
    engine = Engine.open(location)
    outcome: list[BaseException] = []

    def read() -> None:
        try:
            engine.query_arrow(ENDLESS)
        except BaseException as e:
            outcome.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    while not engine.queries_running:
        pass
    engine.close()
    thread.join()
    assert isinstance(outcome[0], QueryCancelled)
    with pytest.raises(StoreError, match="closed"):
        engine.query_arrow("SELECT 1")


def test_a_query_over_its_memory_is_refused(location: str | Path) -> None:
    with (
        Engine.open(location, EngineOptions(query_memory_bytes=100 << 20)) as engine,
        pytest.raises(QueryTooLarge),
    ):
        engine.query_arrow("SELECT groupArray(number) AS a FROM numbers(1000000000)", guard=QueryGuard())


def test_a_query_over_its_rows_is_refused(engine: Engine) -> None:
    with pytest.raises(QueryTooLarge):
        engine.query_arrow("SELECT number AS n FROM numbers(100000)", settings={"max_result_rows": 1000})


def test_an_answer_holds_nothing_of_a_query_that_failed(location: str | Path) -> None:
    with Engine.open(location, EngineOptions(readers=1)) as engine:
        with pytest.raises(StoreError, match="throwIf"):
            engine.query_arrow("SELECT number, throwIf(number = 3000000) AS f FROM numbers(4000000)")
        assert engine.query_arrow("SELECT 7 AS seven").to_pydict() == {"seven": [7]}


def test_a_server_is_not_connected_to_anew_after_a_query_that_failed(
    clickhouse_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes several questions of its own, and whoever leaves a page cancels queries."""
    with Engine.open(f"{clickhouse_url}/again", EngineOptions(readers=1)) as engine:
        assert engine.query_arrow("SELECT 1 AS one")["one"].to_pylist() == [1]
        monkeypatch.setattr(server_link, "_client", lambda *_: pytest.fail("another connection is made"))
        with pytest.raises(StoreError, match="throwIf"):
            engine.query_arrow("SELECT throwIf(1)")
        assert engine.query_arrow("SELECT 2 AS two")["two"].to_pylist() == [2]


def test_reads_run_beside_a_slow_one(engine: Engine) -> None:
    slow = QueryGuard(timeout_s=60)

    def read() -> None:
        with pytest.raises(QueryCancelled):
            engine.query_arrow(ENDLESS, guard=slow)

    thread = threading.Thread(target=read)
    thread.start()
    assert engine.query_arrow("SELECT 1 AS one")["one"].to_pylist() == [1]
    engine.insert_arrow("metadata", pa.table({"metric": ["m"], "kind": ["gauge"], "version": [1]}))
    slow.cancel()
    thread.join()


def test_a_failing_statement_names_itself(engine: Engine) -> None:
    with pytest.raises(StoreError, match="running ALTER TABLE nothing"):
        engine.command("ALTER TABLE nothing DROP COLUMN x")


def test_the_embedded_engine_keeps_to_its_memory(directory: Path) -> None:
    with Engine.open(directory, EngineOptions(memory_bytes=300 << 20, mark_cache_bytes=8 << 20)) as engine:
        found = engine.query_arrow("SELECT name, value FROM system.server_settings")
        settings = dict(zip(found["name"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert settings["max_server_memory_usage"] == str(300 << 20)
    assert settings["mark_cache_size"] == str(8 << 20)
    assert settings["query_condition_cache_size"] == "0"


def test_merges_of_the_embedded_engine_come_after_answers(directory: Path) -> None:
    with Engine.open(directory) as engine:
        found = engine.query_arrow(
            "SELECT toInt32(value) AS nice FROM system.server_settings "
            "WHERE name = 'os_threads_nice_value_merge_mutate'"
        )
    assert found["nice"][0].as_py() > 0


@pytest.mark.parametrize("url", ["ftp://host/db", "http:///db", "http://host:port/db"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="ClickHouse URL"):
        Engine.open(url)


def test_a_server_that_does_not_answer() -> None:
    with pytest.raises(StoreError, match=r"no ClickHouse answers at http://127\.0\.0\.1:9: "):
        Engine.open("http://127.0.0.1:9")


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the data directory"):
        Engine.open(tmp_path / "file" / "data")
