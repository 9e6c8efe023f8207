"""Samples in: admitted, put into the recent window, handed to the writer. The store's SampleSink."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.model.series import MAX_AHEAD_MS
from trilens.store.activity import Activity
from trilens.store.inserts import MetricRow, SampleBatch, written_out_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    import pyarrow as pa

    from trilens.model.labels import Codes
    from trilens.model.series import AppendOutcome, Floats, Handles, Times
    from trilens.store.admission import Admission, Admitted
    from trilens.store.index import SeriesIndex
    from trilens.store.residents import Residents
    from trilens.store.strips import Strips
    from trilens.store.window import RecentWindow
    from trilens.store.writer import Writer


class Backfilled(NamedTuple):
    """How the rows of backfilled series name their metrics, and what is then known of the series."""

    metrics: list[str]
    metric_codes: Codes
    seen: Activity


class Intake:
    """Thread-safe. One lock orders admission, window and writer, so that all agree on what came first."""

    def __init__(
        self,
        index: SeriesIndex,
        residents: Residents,
        window: RecentWindow,
        writer: Writer,
        admission: Admission,
        strips: Strips,
    ) -> None:
        self._index = index
        self._residents = residents
        self._window = window
        self._writer = writer
        self._admission = admission
        self._strips = strips
        self._described: dict[str, MetricRow] = {}

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        latest_ms = _now_ms() + MAX_AHEAD_MS
        ahead = t_ms > latest_ms
        if ahead.any():
            handles, t_ms, values = handles[~ahead], t_ms[~ahead], values[~ahead]
        with self._residents.lock:
            refs = self._residents.refs(handles)
            self._writer.check(len(refs))  # before anything is taken; nothing may refuse after it
            self._admission.heal(latest_ms)  # the clock may have been set back since the last time
            taken = self._admission.admit(refs, t_ms, values)
            if len(taken.t):
                self._writer.enqueue(self._batch(taken), self._unsaved(taken))
                self._residents.note_labels_saved(taken.refs)
                self._remember(taken)
        return taken.outcome._replace(too_far_ahead=int(ahead.sum()))

    def durable(self) -> Future[None]:
        return self._writer.durable()

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        row = MetricRow(metric, kind, help_text, unit)
        if self._described.get(metric) != row:
            self._writer.submit(metadata=(row,))
            self._described[metric] = row

    def described(self) -> dict[str, MetricRow]:
        return self._described

    def restore_descriptions(self, rows: Iterable[MetricRow]) -> None:
        self._described.update((row.metric, row) for row in rows)

    def note_backfill(self, handles: Handles, oldest: Times, newest: Times) -> Backfilled:
        """Samples of these times are about to be written: there the window no longer knows it all."""
        with self._residents.lock:
            refs = self._residents.refs(handles)
            self._window.cut(refs, newest)
            self._strips.forget()
            self._admission.note_on_disk(refs, oldest, newest)
            metrics, codes = self._index.metric_codes(refs)
            last_t, last_v = self._admission.newest(refs)
            ids = self._index.ids[refs]
            return Backfilled(metrics, codes, Activity(ids, self._admission.oldest_t[refs], last_t, last_v))

    def note_past(self, until_ms: int) -> None:
        """Samples up to then are written by somebody else: there the window no longer knows it all."""
        with self._residents.lock:
            self._window.cut(self._index.references.living(), until_ms)
            self._strips.forget()

    def note_labels_saved(self, handles: Handles) -> None:
        """The labels of these series are on disk."""
        held = handles[self._residents.held(handles)]
        with self._residents.lock:
            self._residents.note_labels_saved(self._residents.refs(held))

    def _batch(self, taken: Admitted) -> SampleBatch:
        metrics, codes = self._index.metric_codes(taken.refs)
        ids = self._index.ids[taken.refs]
        if len(taken.t) != len(taken.refs):
            ids, codes = np.repeat(ids, taken.counts), np.repeat(codes, taken.counts)
        return SampleBatch(ids, metrics, codes, taken.t, taken.v)

    def _unsaved(self, taken: Admitted) -> pa.Table | None:
        new = self._residents.unsaved_labels(taken.refs)
        if not len(new):
            return None
        refs, end = taken.refs[new], np.cumsum(taken.counts)[new]
        first_seen, last_seen = taken.t[end - taken.counts[new]], taken.t[end - 1]
        labels = self._index.written_out(refs)
        return written_out_table(self._index.ids[refs], labels, first_seen, last_seen)

    def _remember(self, taken: Admitted) -> None:
        if not taken.late.any():
            self._window.append(taken.refs, taken.counts, taken.t, taken.v)
            return
        late = taken.refs[taken.late]
        self._window.cut(late, self._admission.newest_t[late])
        self._strips.forget()
        self._residents.note_late(late)
        keep = np.repeat(~taken.late, taken.counts)
        self._window.append(taken.refs[~taken.late], taken.counts[~taken.late], taken.t[keep], taken.v[keep])


def _now_ms() -> int:
    return int(time.time() * 1000)
