"""Samples out: from the recent window where it is complete, else joined with the engine at its floor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.errors import StoreError
from trilens.model.labels import METRIC_NAME
from trilens.model.series import Gridded, SampleBlock, Selected
from trilens.store.expired import Expired
from trilens.store.pushdown import Pushdown
from trilens.store.rows import read_samples, runs_of, stretches
from trilens.store.strips import worth_keeping
from trilens.store.summaries import SummaryReader, can_summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.labels import Codes
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.model.series import Floats, GridRequest, SelectRequest, Summaries
    from trilens.store.admission import Admission
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.index import SeriesIndex
    from trilens.store.index_state import Selection
    from trilens.store.recall import Recall
    from trilens.store.rows import SampleRows
    from trilens.store.strips import StripReader
    from trilens.store.window import RecentWindow
    from trilens.store.writer import Writer

_PATIENCE_S = 0.1  # how often a query that waits for the disk looks whether it was cancelled
_TRIES = 3  # the window may be cut between looking at its floor and reading it


class Reader:
    """Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        index: SeriesIndex,
        recall: Recall,
        window: RecentWindow,
        admission: Admission,
        writer: Writer,
        strips: StripReader,
        horizon: Horizon,
    ) -> None:
        self._engine = engine
        self._index = index
        self._recall = recall
        self._window = window
        self._admission = admission
        self._writer = writer
        self._strips = strips
        self._rollups = SummaryReader(engine, horizon)
        self._pushdown = Pushdown(engine)
        self._expired = Expired(engine, horizon)

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        chosen = self.series(request.matchers, request.start_ms, request.end_ms, guard)
        guard.take_series(len(chosen))
        block = self._window.read(chosen.refs, request.start_ms, request.end_ms, guard.take_samples)
        if block is not None:
            return Selected(chosen.labels, block)
        chosen = self._by_id(chosen)
        block, warnings = self._joined(chosen, request.start_ms, request.end_ms, guard)
        return Selected(chosen.labels, block, warnings)

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | Summaries | None:
        """From the window where it reaches back far enough, else from rollups, else by the engine."""
        instant = request.function == "instant"
        if not (instant or can_summarise(request) or self._pushdown.takes(request)):
            return None
        begin = request.start_ms - request.range_ms
        chosen = self.series(request.matchers, begin, request.end_ms, guard)
        guard.take_series(len(chosen))
        if instant:
            found = self._from_window(request, chosen, guard)
            if found is not None:
                return found
        elif not len(chosen) or int(self._window.floors(chosen.refs).max()) <= begin:
            return None  # the samples are at hand
        chosen = self._by_id(chosen)
        return self._from_rollups(request, chosen, guard) or self._from_engine(request, chosen, guard)

    def _from_window(self, request: GridRequest, chosen: Selection, guard: QueryGuard) -> Gridded | None:
        found = self._latest(request, chosen)
        if found is None:
            return None
        values, present = found
        guard.take_samples(values.size)
        return Gridded(chosen.labels, values, None if present.all() else present)

    def _latest(self, request: GridRequest, chosen: Selection) -> tuple[Floats, NDArray[np.bool_]] | None:
        return self._window.latest(
            chosen.refs, request.start_ms, request.step_ms, request.steps, request.range_ms
        )

    def _from_rollups(self, request: GridRequest, chosen: Selection, guard: QueryGuard) -> Summaries | None:
        if not can_summarise(request):
            return None
        if self._settle(self._rollups.rolled_ms, guard):
            return None  # there are late samples that the rollups do not have
        metrics, every = self._metrics(chosen)

        def recent(start_ms: int, end_ms: int) -> tuple[SampleBlock, tuple[str, ...]]:
            return self._joined(chosen, start_ms, end_ms, guard)

        ids = self._index.ids[chosen.refs]
        return self._rollups.read(request, chosen, ids, metrics, every, recent, guard)

    def _from_engine(self, request: GridRequest, chosen: Selection, guard: QueryGuard) -> Gridded | None:
        """Computed by the engine; of a plain selector only the steps for which the window is too short."""
        begin = request.start_ms - request.range_ms
        if not self._pushdown.takes(request) or worth_keeping(len(chosen), begin, request.end_ms):
            return None
        if begin < self._expired.raw_since_ms:
            return None  # part of it is only in the rollups
        metrics, every = self._metrics(chosen)
        if not self._pushdown.pays(request, metrics, len(chosen), every, guard):
            return None
        older, newer = request, None
        if request.function == "instant":
            older, rest = self._split(request, chosen)
            newer = self._latest(rest, chosen) if rest is not None else None
            if newer is None:  # the window was cut meanwhile, or is too short for any step
                older = request
            else:
                guard.take_samples(newer[0].size)
        if self._settle(older.end_ms, guard):
            return None  # what cannot be written now is still in the window
        found = self._pushdown.read(older, self._index.ids[chosen.refs], metrics, every, guard)
        if found is None:
            return None
        values, present = found
        if newer is not None:
            values = np.concatenate((values, newer[0]), axis=1)
            present = np.concatenate((present, newer[1]), axis=1)
        return Gridded(chosen.labels, values, None if present.all() else present)

    def _split(self, request: GridRequest, chosen: Selection) -> tuple[GridRequest, GridRequest | None]:
        """The steps that look at samples below the window's floor, and those after them."""
        floor = int(self._window.floors(chosen.refs).max())
        below = -((request.start_ms - request.range_ms - floor) // request.step_ms)
        if below >= request.steps:
            return request, None
        border = request.start_ms + max(1, below) * request.step_ms
        return replace(request, end_ms=border - request.step_ms), replace(request, start_ms=border)

    def series(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard) -> Selection:
        """The series that match and may have samples in the range."""
        chosen = self._recall.select(matchers, start_ms, end_ms, guard)
        active = self.active(chosen.refs, start_ms, end_ms)
        return chosen if active.all() else chosen.take(active)

    def active(self, refs: Codes, start_ms: int, end_ms: int) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = self._admission.newest_t[refs] > start_ms
        within &= self._admission.oldest_t[refs] <= end_ms
        return within

    def _by_id(self, chosen: Selection) -> Selection:
        """The engine answers in order of id, so the series are put into that order too."""
        return chosen.take(np.argsort(self._index.ids[chosen.refs]))

    def _joined(
        self, chosen: Selection, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> tuple[SampleBlock, tuple[str, ...]]:
        """Samples from the engine up to the window's floor and from the window above it."""
        for _ in range(_TRIES):
            floor = int(self._window.floors(chosen.refs).max(initial=start_ms))
            border = max(start_ms, min(floor, end_ms))
            recent = self._window.read(chosen.refs, border, end_ms, guard.take_samples)
            if recent is not None:
                break
        else:
            border, recent = end_ms, SampleBlock.empty(len(chosen))
        if border <= start_ms:
            return recent, ()
        warnings = self._settle(border, guard)
        history, more = self._history(chosen, start_ms, border, guard)
        return joined(history, recent), warnings + more

    def _metrics(self, chosen: Selection) -> tuple[list[str], bool]:
        """The metrics of these series, and whether the series are most that these metrics have.

        Asking the engine for every series of a metric is cheaper than listing most of them.
        """
        names = np.unique(chosen.labels.column(METRIC_NAME)).tolist()
        metrics = chosen.labels.symbols.texts(names)
        every = chosen.siblings_known and 2 * len(chosen) > chosen.state.series_of(metrics)
        return metrics, every

    def _settle(self, border_ms: int, guard: QueryGuard) -> tuple[str, ...]:
        """Have everything up to `border_ms` that was taken on disk, where the engine can see it."""
        if self._writer.oldest_pending_ms() > border_ms:
            return ()
        written = self._writer.durable()
        while True:
            try:
                written.result(timeout=_PATIENCE_S)
            except TimeoutError:
                guard.check()
            except StoreError as e:
                return (f"the newest samples may be missing: {e}",)
            else:
                return ()

    def _history(
        self, chosen: Selection, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> tuple[SampleBlock, tuple[str, ...]]:
        """Samples on disk and, for the time in which they have expired, what the rollups keep of them."""
        ids = self._index.ids[chosen.refs]
        metrics, every = self._metrics(chosen)
        wanted = None if every else ids
        border = min(max(start_ms, self._expired.raw_since_ms), end_ms)

        def raw(until_ms: int) -> SampleBlock:
            return as_block(read_samples(self._engine, metrics, wanted, border, until_ms, guard), ids)

        if worth_keeping(len(ids), border, end_ms):
            kept = self._strips.read(chosen.refs, ids, border, end_ms, raw)
        else:
            kept = raw(end_ms)
        guard.take_samples(len(kept.t))
        if border == start_ms:
            return kept, ()
        older = as_block(self._expired.read(metrics, wanted, start_ms, border, guard), ids)
        guard.take_samples(len(older.t))
        return joined(older, kept), (self._expired.warning(),) if len(older.t) else ()


def as_block(rows: SampleRows, ids: NDArray[np.uint64]) -> SampleBlock:
    """The rows of these series, which are in order of id as the rows are."""
    begin, counts = runs_of(rows, ids)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    if offsets[-1] == len(rows.t):
        return SampleBlock(rows.t, rows.v, offsets)
    at = stretches(begin, counts)
    return SampleBlock(rows.t[at], rows.v[at], offsets)


def joined(older: SampleBlock, newer: SampleBlock) -> SampleBlock:
    """The same series, first the older samples of each, then the newer."""
    if len(newer.t) == 0:
        return older
    if len(older.t) == 0:
        return newer
    old_counts, new_counts = np.diff(older.offsets), np.diff(newer.offsets)
    offsets = np.concatenate(([0], np.cumsum(old_counts + new_counts)))
    t = np.empty(offsets[-1], dtype=np.int64)
    v = np.empty(offsets[-1], dtype=np.float64)
    for block, shift in ((older, offsets[:-1]), (newer, offsets[:-1] + old_counts)):
        at = np.arange(len(block.t)) + np.repeat(shift - block.offsets[:-1], np.diff(block.offsets))
        t[at], v[at] = block.t, block.v
    return SampleBlock(t, v, offsets)
