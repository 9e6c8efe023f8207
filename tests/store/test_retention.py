"""Rows expire when the settings say, and a changed setting holds for what is there already."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import ConfigError
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


def test_applying_the_same_again_changes_nothing(new_engine: Engine) -> None:
    assert apply_retention(new_engine, days(15)) == ("samples", "samples_5m", "samples_1h")
    assert apply_retention(new_engine, days(15)) == ()


def test_a_retention_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least a second"):
        days(0)
