"""Samples in: admitted, put into the recent window, handed to the writer. The store's SampleSink."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.errors import IntakeError
from trilens.store.inserts import MetricRow, SampleBatch, SeriesRow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from trilens.model.labels import Codes, Labels
    from trilens.model.series import AppendOutcome, Floats, Times
    from trilens.store.admission import Admission, Admitted
    from trilens.store.index import SeriesIndex
    from trilens.store.window import RecentWindow
    from trilens.store.writer import Writer


MAX_AHEAD_MS: Final = 600_000  # as Prometheus allows a target's clock to be ahead


class Intake:
    """Thread-safe. One lock orders admission, window and writer, so that all agree on what came first."""

    def __init__(
        self, index: SeriesIndex, window: RecentWindow, writer: Writer, admission: Admission
    ) -> None:
        self._index = index
        self._window = window
        self._writer = writer
        self._admission = admission
        self._saved = np.zeros(1024, dtype=bool)  # whether the writer has a series' labels
        self._described: dict[str, MetricRow] = {}
        self._lock = threading.Lock()
        self.reserve(len(index))

    def series(self, labels: Labels) -> int:
        with self._lock:
            # Room first: a reader may see the reference as soon as the index has it.
            self.reserve(len(self._index) + 1)
            try:
                return self._index.add(labels)[0]
            except UnicodeEncodeError as e:
                raise IntakeError(f"a label is not valid UTF-8: {e.object!r}") from e

    def reserve(self, series: int) -> None:
        self._admission.reserve(series)
        self._window.reserve(series)
        if series > len(self._saved):
            grown = np.zeros(max(series, 2 * len(self._saved)), dtype=bool)
            grown[: len(self._saved)] = self._saved
            self._saved = grown

    def known(self, refs: Codes) -> None:
        """These series are on disk already."""
        self._saved[refs] = True

    def append(self, refs: Codes, t_ms: Times, values: Floats) -> AppendOutcome:
        ahead = t_ms > _now_ms() + MAX_AHEAD_MS
        if ahead.any():
            refs, t_ms, values = refs[~ahead], t_ms[~ahead], values[~ahead]
        with self._lock:
            self._writer.check(len(refs))  # before anything is taken; nothing may refuse after it
            taken = self._admission.admit(refs, t_ms, values)
            if len(taken.t):
                self._writer.enqueue(self._batch(taken), self._unsaved(taken))
                self._saved[taken.refs] = True
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

    def note_history(self, refs: Codes, oldest: Times, newest: Times) -> None:
        """History is being written up to these times: below them the window no longer knows it all."""
        with self._lock:
            held, value = self._admission.newest(refs)
            self._window.cut(refs, newest)
            later = newest > held
            self._admission.restore(
                refs,
                np.minimum(self._admission.oldest_t[refs], oldest),
                np.maximum(held, newest),
                np.where(later, np.nan, value),
            )

    def _batch(self, taken: Admitted) -> SampleBatch:
        metrics, codes = self._index.metric_codes(taken.refs)
        ids = self._index.ids[taken.refs]
        if len(taken.t) != len(taken.refs):
            ids, codes = np.repeat(ids, taken.counts), np.repeat(codes, taken.counts)
        return SampleBatch(ids, metrics, codes, taken.t, taken.v)

    def _unsaved(self, taken: Admitted) -> list[SeriesRow]:
        new = np.flatnonzero(~self._saved[taken.refs])
        if not len(new):
            return []
        first = np.cumsum(taken.counts) - taken.counts
        ids = self._index.ids
        return [
            SeriesRow(int(ids[ref]), self._index.labels(ref), int(taken.t[at]), int(taken.t[at + count - 1]))
            for ref, at, count in zip(
                taken.refs[new].tolist(), first[new].tolist(), taken.counts[new].tolist(), strict=True
            )
        ]

    def _remember(self, taken: Admitted) -> None:
        if not taken.late.any():
            self._window.append(taken.refs, taken.counts, taken.t, taken.v)
            return
        late = taken.refs[taken.late]
        self._window.cut(late, self._admission.newest_t[late])
        keep = np.repeat(~taken.late, taken.counts)
        self._window.append(taken.refs[~taken.late], taken.counts[~taken.late], taken.t[keep], taken.v[keep])


def _now_ms() -> int:
    return int(time.time() * 1000)
