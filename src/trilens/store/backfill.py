"""Samples of the past: any age and any order, past the rules for fresh ones, straight to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilens.store.activity import save_activity, with_saved_past
from trilens.store.inserts import (
    CHUNK_ROWS,
    SampleBatch,
    SeriesRow,
    insert_samples,
    samples_table,
    series_table,
)
from trilens.store.schema import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from trilens.model.labels import Labels
    from trilens.model.series import Floats, Times
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.intake import Intake
    from trilens.store.residents import Residents
    from trilens.store.strips import Strips


class Backfill:
    """Of a store that is open: its index, window and admission learn of what is written."""

    def __init__(
        self, engine: Engine, horizon: Horizon, residents: Residents, intake: Intake, strips: Strips
    ) -> None:
        self._engine = engine
        self._horizon = horizon
        self._residents = residents
        self._intake = intake
        self._strips = strips

    def write(self, series: Sequence[Labels], owner: NDArray[np.integer], t_ms: Times, values: Floats) -> int:
        """Write samples, `owner[i]` being the place in `series` of sample i's labels. Durable on return."""
        if len(t_ms) == 0:
            return 0
        place, owner = np.unique(owner, return_inverse=True)  # only those that have samples
        labels = [series[i] for i in place.tolist()]
        oldest = np.full(len(labels), np.iinfo(np.int64).max)
        newest = np.full(len(labels), np.iinfo(np.int64).min)
        np.minimum.at(oldest, owner, t_ms)
        np.maximum.at(newest, owner, t_ms)
        handles = np.array([self._residents.series(one) for one in labels], dtype=np.int64)
        # First the window steps back, so that no reader misses what the engine is about to have.
        noted = self._intake.note_backfill(handles, oldest, newest)
        ids = noted.seen.ids
        rows = [
            SeriesRow(*row)
            for row in zip(ids.tolist(), labels, oldest.tolist(), newest.tolist(), strict=True)
        ]
        batch = SampleBatch(ids[owner], noted.metrics, noted.metric_codes[owner], t_ms, values)
        try:
            written = write_tables(self._engine, self._horizon, rows, [batch])
        finally:
            self._strips.forget()  # again: a reader may have kept what was there before
        # Only now: until the labels are on disk, fresh samples bring them along.
        self._intake.note_labels_saved(handles)
        save_activity(self._engine, with_saved_past(self._engine, noted.seen))
        return written

    def put(self, write: Callable[[Engine], None], until_ms: int) -> None:
        """Samples up to then that `write` puts into the tables itself, of series that are known and hours
        that were not rolled up. Whoever reads meanwhile finds some of them."""
        self._intake.note_past(until_ms)
        try:
            with self._horizon.held():
                write(self._engine)
        finally:
            self._intake.note_past(until_ms)


def write_tables(
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
        rows = samples_table(batch)
        days = rows["t"].to_numpy() // DAY_MS
        order = np.argsort(days, kind="stable")
        rows = rows.take(order)
        bounds = np.flatnonzero(np.diff(days[order], prepend=days[order[:1]] - 1)).tolist()
        for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
            for at in range(begin, end, CHUNK_ROWS):
                insert_samples(engine, horizon, rows.slice(at, min(CHUNK_ROWS, end - at)))
        written += len(order)
    return written
