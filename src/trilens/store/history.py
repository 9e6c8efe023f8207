"""History in: samples of any age and in any order, past the rules for fresh ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilens.store.activity import Activity, save_activity
from trilens.store.backfill import backfill
from trilens.store.inserts import SampleBatch, SeriesRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.labels import Codes, Labels
    from trilens.model.series import Floats, Times
    from trilens.store.admission import Admission
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.index import SeriesIndex
    from trilens.store.intake import Intake


class History:
    def __init__(
        self, engine: Engine, horizon: Horizon, index: SeriesIndex, intake: Intake, admission: Admission
    ) -> None:
        self._engine = engine
        self._horizon = horizon
        self._index = index
        self._intake = intake
        self._admission = admission

    def backfill(
        self, series: Sequence[Labels], owner: NDArray[np.integer], t_ms: Times, values: Floats
    ) -> int:
        """Write samples, `owner[i]` being the place in `series` of sample i's labels. Durable on return."""
        if len(t_ms) == 0:
            return 0
        refs = np.array([self._intake.series(labels) for labels in series], dtype=np.int32)
        oldest = np.full(len(refs), np.iinfo(np.int64).max)
        newest = np.full(len(refs), np.iinfo(np.int64).min)
        np.minimum.at(oldest, owner, t_ms)
        np.maximum.at(newest, owner, t_ms)
        rows = [
            SeriesRow(int(self._index.ids[ref]), labels, int(first), int(last))
            for ref, labels, first, last in zip(
                refs.tolist(), series, oldest.tolist(), newest.tolist(), strict=True
            )
            if first <= last
        ]
        metrics, codes = self._index.metric_codes(refs)
        batch = SampleBatch(self._index.ids[refs][owner], metrics, codes[owner], t_ms, values)
        # First the window steps back, so that no reader misses what the engine is about to have.
        self._intake.note_history(refs, oldest, newest)
        written = backfill(self._engine, self._horizon, rows, [batch])
        self._intake.known(refs)  # only now: until the labels are on disk, fresh samples bring them along
        self._save(refs)
        return written

    def _save(self, refs: Codes) -> None:
        newest, value = self._admission.newest(refs)
        seen = Activity(self._index.ids[refs], self._admission.oldest_t[refs], newest, value)
        save_activity(self._engine, seen)
