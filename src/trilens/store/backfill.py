"""History, written past the rules for fresh samples: any age, any order, straight to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilens.store.inserts import CHUNK_ROWS, SampleBatch, insert_samples, samples_table, series_table
from trilens.store.schema import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.inserts import SeriesRow


def backfill(
    engine: Engine, horizon: Horizon, series: Sequence[SeriesRow], batches: Iterable[SampleBatch]
) -> int:
    """Write series, then their samples; returns how many samples. All are durable on return.

    Hours that were rolled up already are marked, and the next run of the rollup job takes them again. Doing
    a backfill twice is harmless: a sample at the same time replaces itself when read.
    """
    if series:
        engine.insert_arrow("series", series_table(series))
    written = 0
    for batch in batches:
        # A day is a partition and every insert makes one part in each, so a batch goes in day by day.
        days = batch.t // DAY_MS
        order = np.argsort(days, kind="stable")
        rows = samples_table(batch).take(order)
        bounds = np.flatnonzero(np.diff(days[order], prepend=days[order[:1]] - 1)).tolist()
        for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
            for at in range(begin, end, CHUNK_ROWS):
                insert_samples(engine, horizon, rows.slice(at, min(CHUNK_ROWS, end - at)))
        written += len(order)
    return written
