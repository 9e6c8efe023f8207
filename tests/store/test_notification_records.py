"""The queue of notifications in the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trilens.model.errors import StoreError
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.notifications import NotificationRecords

if TYPE_CHECKING:
    from pathlib import Path


def test_the_last_word_on_each_counts(engine: Engine) -> None:
    records = NotificationRecords(engine)
    records.put([("told", "a", "1"), ("told", "b", "1"), ("silences", "a", "x")])
    records.put([("told", "a", "2"), ("told", "b", None)])
    assert NotificationRecords(engine).load() == [("silences", "a", "x"), ("told", "a", "2")]


def test_what_is_no_more_is_tidied_away(engine: Engine) -> None:
    records = NotificationRecords(engine)
    records.put([("told", "a", "1")])
    records.put([("told", "a", None)])
    assert NotificationRecords(engine).load() == []
    assert engine.query_arrow("SELECT count() AS n FROM notifications")["n"].to_pylist() == [0]


def test_a_clock_that_is_behind_takes_nothing_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    NotificationRecords(engine).put([("told", "a", "1")])
    monkeypatch.setattr("time.time_ns", lambda: 5)
    behind = NotificationRecords(engine)
    behind.load()
    behind.put([("told", "a", "2")])
    assert behind.load() == [("told", "a", "2")]


def test_one_that_does_not_lead_any_more_writes_nothing(directory: Path) -> None:
    leads = True
    with Engine.open(directory, EngineOptions(may_write=lambda: leads)) as engine:
        engine.command("CREATE TABLE IF NOT EXISTS t (a UInt8) ENGINE = MergeTree ORDER BY a")
        leads = False
        with pytest.raises(StoreError, match="another server works by now"):
            engine.command("INSERT INTO t VALUES (1)")
        with pytest.raises(StoreError, match="another server works by now"):
            engine.insert_arrow("t", engine.query_arrow("SELECT 1::UInt8 AS a"))
        assert engine.query_arrow("SELECT count() AS n FROM t")["n"].to_pylist() == [0]
