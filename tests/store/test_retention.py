"""Rows expire when the settings say, and a changed setting holds for what is there already."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import ConfigError, StoreError
from trilens.store.horizon import Horizon
from trilens.store.inserts import SampleBatch, insert_samples, samples_table
from trilens.store.retention import Retention, apply_retention
from trilens.store.rows import read_samples
from trilens.store.schema import DAY_MS

if TYPE_CHECKING:
    from trilens.store.engine import Engine

ALWAYS = (-(1 << 60), 1 << 60)


def days(raw: int) -> Retention:
    return Retention(timedelta(days=raw), timedelta(days=90), timedelta(days=400), timedelta(days=400))


def ages(engine: Engine, now: int) -> list[int]:
    engine.command("OPTIMIZE TABLE samples FINAL")
    return sorted(((now - read_samples(engine, None, None, *ALWAYS).t) // DAY_MS).tolist())


def test_samples_expire_and_a_shorter_retention_takes_more(engine: Engine) -> None:
    now = time.time_ns() // 1_000_000
    apply_retention(engine, days(15))
    t = now - np.array([1, 5, 12, 20]) * DAY_MS
    batch = SampleBatch(np.arange(4, dtype=np.uint64), ["m"], np.zeros(4, np.int32), t, np.ones(4))
    insert_samples(engine, Horizon(), samples_table(batch))
    assert ages(engine, now) == [1, 5, 12]
    assert apply_retention(engine, days(8)) == ("samples",)
    assert ages(engine, now) == [1, 5]


def test_a_change_that_was_interrupted_is_finished(
    new_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table says how long from the first of three statements on; old parts learn it by the last."""
    now = time.time_ns() // 1_000_000
    apply_retention(new_engine, days(15))
    t = now - np.array([1, 12]) * DAY_MS
    batch = SampleBatch(np.arange(2, dtype=np.uint64), ["m"], np.zeros(2, np.int32), t, np.ones(2))
    insert_samples(new_engine, Horizon(), samples_table(batch))
    command = new_engine.command

    def killed(statement: str) -> None:
        if "MATERIALIZE" in statement:
            raise StoreError("killed")
        command(statement)

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="killed"):
        patch.setattr(new_engine, "command", killed)
        apply_retention(new_engine, days(8))
    assert apply_retention(new_engine, days(8)) == ("samples",)
    assert ages(new_engine, now) == [1]
    assert apply_retention(new_engine, days(8)) == ()


def test_applying_the_same_again_changes_nothing(new_engine: Engine) -> None:
    assert apply_retention(new_engine, days(15)) == ("samples", "samples_5m", "samples_1h")
    assert apply_retention(new_engine, days(15)) == ()


def test_a_retention_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least a second"):
        days(0)
