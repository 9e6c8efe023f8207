"""After a start: what the index, admission and the recent window held, read back from disk."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from trilens.store.activity import load_activity
from trilens.store.rows import load_series, read_samples
from trilens.store.window import CHUNK, DEPTH

if TYPE_CHECKING:
    import threading

    from trilens.model.labels import Codes
    from trilens.store.admission import Admission
    from trilens.store.engine import Engine
    from trilens.store.index import SeriesIndex
    from trilens.store.intake import Intake
    from trilens.store.window import RecentWindow

log = logging.getLogger(__name__)

_SLICE_ROWS = 2_000_000  # read and put into the window at once: about 50 MB
_FILL = 0.94  # of the window's budget: the rest is for what comes in meanwhile


def restore(engine: Engine, index: SeriesIndex, intake: Intake, admission: Admission) -> None:
    """Every stored series, and each one's oldest and newest sample. Needed before anything is served."""
    for block in load_series(engine):
        texts = index.symbols.intern_all(block.texts)
        intake.reserve(len(index) + len(block.ids))
        refs = index.add_block(block.ids, block.metric, block.names, texts[block.values])
        intake.known(refs)
        admission.restore(refs, block.first_seen, block.last_seen, np.full(len(refs), np.nan))
    seen = load_activity(engine)
    refs = index.refs_of(seen.ids)
    known = refs >= 0  # labels are written before samples, so only damage can make one unknown
    refs = refs[known]
    oldest = np.minimum(admission.oldest_t[refs], seen.first_t[known])
    admission.restore(refs, oldest, seen.last_t[known], seen.last_v[known])


class Warmer:
    """Fills the window with what the disk has of the last hours, newest first, while the store serves."""

    def __init__(self, engine: Engine, index: SeriesIndex, window: RecentWindow, refs: Codes) -> None:
        self._engine = engine
        self._index = index
        self._window = window
        self._refs = refs  # the series that were there at start

    def run(self, stop: threading.Event) -> None:
        began = time.monotonic()
        if not len(self._refs):
            return
        newest = int(self._window.floors(self._refs).max())
        since, rows = self._affordable(newest)
        for metric, count in rows:
            pieces = max(1, -(-count // _SLICE_ROWS))
            edges = np.linspace(since, newest, pieces + 1).astype(np.int64).tolist()
            for start, end in zip(edges[-2::-1], edges[:0:-1], strict=True):
                if stop.is_set():
                    return
                self._fill(metric, start, end)
        log.info(
            "recent window filled",
            extra={
                "hours": round((newest - since) / 3.6e6, 2),
                "seconds": round(time.monotonic() - began, 1),
            },
        )

    def _affordable(self, newest_ms: int) -> tuple[int, list[tuple[str, int]]]:
        """How far back the budget reaches, and how many samples each metric has since then."""
        used, budget = self._window.memory()
        room = int((budget * _FILL - used) / 12.5)  # bytes a sample, with what a chunk adds
        reach = newest_ms - DEPTH * CHUNK * 15_000
        per_minute = self._engine.query_arrow(
            f"SELECT intDiv(t, 60000) AS minute, count() AS n FROM samples WHERE t > {reach} "
            "GROUP BY minute ORDER BY minute DESC"
        )
        total = np.cumsum(per_minute["n"].to_numpy())
        fits = per_minute["minute"].to_numpy()[total <= room]
        since = int(fits[-1]) * 60_000 if len(fits) else newest_ms
        rows = self._engine.query_arrow(
            f"SELECT metric, count() AS n FROM samples WHERE t > {since} GROUP BY metric ORDER BY n"
        )
        return since, list(zip(rows["metric"].to_pylist(), rows["n"].to_pylist(), strict=True))

    def _fill(self, metric: str, start_ms: int, end_ms: int) -> None:
        """One metric's samples of (start, end], for the series whose floor lies in there."""
        refs = self._index.refs_of_metric(metric)
        floors = self._window.floors(refs)
        joining = (start_ms < floors) & (floors <= end_ms)
        refs, floors = refs[joining], floors[joining]
        order = np.argsort(self._index.ids[refs])
        refs, floors = refs[order], floors[order]
        rows = read_samples(self._engine, [metric], None, start_ms, end_ms)
        ids = self._index.ids[refs]
        begin, end = np.searchsorted(rows.ids, ids, side="left"), np.searchsorted(rows.ids, ids, side="right")
        counts = end - begin
        owner = np.repeat(np.arange(len(refs)), counts)
        at = np.arange(len(owner)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
        held = rows.t[at] > floors[owner]  # written since the start, so the window has it already
        at, owner = at[~held], owner[~held]
        self._window.prepend(
            refs,
            np.bincount(owner, minlength=len(refs)),
            rows.t[at],
            rows.v[at],
            above=floors,
            floor=np.full(len(refs), start_ms, dtype=np.int64),
        )
