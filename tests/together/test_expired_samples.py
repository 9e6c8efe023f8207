"""Samples that have expired, and what the rollups still say of them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600_000
NOW = int(time.time() * 1000)


def test_expired_samples_leave_the_last_of_each_window_and_a_warning(tmp_path: Path) -> None:
    begin = (NOW - 6 * HOUR) // HOUR * HOUR
    t = np.arange(begin + 30_000, begin + 5 * HOUR, 30_000)
    labels = [make_labels({METRIC_NAME: "power"})]
    options = StoreOptions(data_dir=tmp_path / "data", recent_bytes=1)
    with closing(Store.open(options, upkeep=False)) as store:
        store.backfill(labels, np.zeros(len(t), dtype=np.int64), t, (t - begin) / 1000)
        assert store.roll_up() >= 4
        store._engine.command(
            f"ALTER TABLE samples DELETE WHERE t <= {begin + 2 * HOUR} SETTINGS mutations_sync = 2"
        )
        result = Engine(store).instant("power[5h]", begin + 5 * HOUR, QueryGuard())
        held = result.samples.t - begin
        assert held[held <= 2 * HOUR].tolist() == list(range(300_000, 2 * HOUR + 1, 300_000))
        assert held[held > 2 * HOUR].tolist() == list(range(2 * HOUR + 30_000, 5 * HOUR, 30_000))
        assert "have expired" in result.warnings[0]
        recent = Engine(store).instant("power[1h]", begin + 5 * HOUR, QueryGuard())
        assert recent.warnings == ()
