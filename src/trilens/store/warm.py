"""After a start: what the index, admission and the recent window held, read back from disk."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from trilens.store.activity import (
    activity_saved_until,
    brought_up_to_date,
    newest_saved,
    saved_activity,
    unsaved_activity,
)
from trilens.store.admission import NEVER
from trilens.store.archive import Archive
from trilens.store.chunks import CHUNK, CHUNK_BYTES
from trilens.store.rows import read_samples, runs_of, stretches
from trilens.store.window import DEPTH

if TYPE_CHECKING:
    import threading

    from trilens.model.labels import Codes
    from trilens.store.engine import Engine
    from trilens.store.index import SeriesIndex
    from trilens.store.residents import Residents
    from trilens.store.window import RecentWindow

log = logging.getLogger(__name__)

_SLICE_ROWS = 2_000_000  # read and put into the window at once: about 50 MB
_FILL = 0.94  # of the window's budget: the rest is for what comes in meanwhile


def restore(engine: Engine, index: SeriesIndex, residents: Residents, keep_ms: int, latest_ms: int) -> None:
    """The series of the last `keep_ms`, each with its oldest and newest sample. Needed before anything is
    served. The newest sample of all is looked for up to `latest_ms`: later ones come from a wrong clock."""
    until_ms = activity_saved_until(engine)
    since = unsaved_activity(engine, until_ms)
    newest = max(newest_saved(engine), int(since.last_t.max(initial=NEVER)))
    if newest == NEVER:
        return
    horizon_ms = min(newest, latest_ms) - keep_ms
    residents.start_from(horizon_ms)
    archive = Archive(engine)
    for block in archive.recent(horizon_ms):
        residents.take(block, saved=False)
    # What has samples that activity does not know of is taken however old it is, for activity to learn it.
    for block in archive.with_ids(np.setdiff1d(since.ids, index.ids)):
        residents.take(block, saved=False)
    saved = saved_activity(engine, horizon_ms)
    seen = brought_up_to_date(saved, since, until_ms)
    saved_t = np.full(len(seen.ids), NEVER)
    saved_t[np.searchsorted(seen.ids, saved.ids)] = saved.last_t
    residents.restore(seen, saved_t)


class Warmer:
    """Fills the window with what the disk has of the last hours, newest first, while the store serves."""

    def __init__(self, engine: Engine, index: SeriesIndex, window: RecentWindow) -> None:
        self._engine = engine
        self._index = index
        self._window = window

    def run(self, stop: threading.Event) -> None:
        began = time.monotonic()
        state = self._index.state  # while it is held, the references in it mean these series
        refs = self._index.references.living()
        if not len(refs):
            return
        newest = int(self._window.floors(refs).max())
        since, rows = self._affordable(newest)
        for metric, count in rows:
            pieces = max(1, -(-count // _SLICE_ROWS))
            edges = np.linspace(since, newest, pieces + 1).astype(np.int64).tolist()
            for start, end in zip(edges[-2::-1], edges[:0:-1], strict=True):
                if stop.is_set():
                    return
                self._fill(state.refs_of_metric(metric), metric, start, end)
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
        room = int((budget * _FILL - used) * CHUNK / CHUNK_BYTES)
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

    def _fill(self, refs: Codes, metric: str, start_ms: int, end_ms: int) -> None:
        """One metric's samples of (start, end], for those of its series whose floor lies in there."""
        floors = self._window.floors(refs)
        joining = (start_ms < floors) & (floors <= end_ms)
        refs, floors = refs[joining], floors[joining]
        rows = read_samples(self._engine, [metric], None, start_ms, end_ms)
        begin, counts = runs_of(rows, self._index.ids[refs])
        at = stretches(begin, counts)
        owner = np.repeat(np.arange(len(refs)), counts)
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
