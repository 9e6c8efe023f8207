"""Which labels, values and series there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.labels import METRIC_NAME
from trilens.model.query import QueryGuard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame
    from trilens.model.matcher import Matcher
    from trilens.store.archive import Archive
    from trilens.store.index import SeriesIndex
    from trilens.store.index_state import IndexState, Shape
    from trilens.store.intake import Intake
    from trilens.store.reader import Reader


_ENDLESS_MS: Final = 1 << 47  # no sample has a time after that


class Description(NamedTuple):
    kind: str
    help: str
    unit: str


class Catalog:
    """Thread-safe. Answers hold for series that may have samples in the range.

    What has left memory is asked for on disk, and stays there: a list of label values may be about far more
    series than a query could take.
    """

    def __init__(self, index: SeriesIndex, archive: Archive, reader: Reader, intake: Intake) -> None:
        self._index = index
        self._archive = archive
        self._reader = reader
        self._intake = intake

    def label_names(
        self,
        matchers: tuple[Matcher, ...] | None,
        start_ms: int,
        end_ms: int,
        guard: QueryGuard | None = None,
    ) -> list[str]:
        state, wanted = self._index.state, matchers or ()
        names: set[str] = set()
        for shape, _ in self._active(state, wanted, start_ms, end_ms):
            names.update(shape.names)
            if shape.metric:
                names.add(METRIC_NAME)
        if start_ms <= state.horizon_ms:
            guard = guard or QueryGuard()
            names.update(self._archive.label_names(wanted, start_ms - 1, end_ms, guard))
        return sorted(names)

    def label_values(
        self,
        name: str,
        matchers: tuple[Matcher, ...] | None,
        start_ms: int,
        end_ms: int,
        guard: QueryGuard | None = None,
    ) -> list[str]:
        state, wanted = self._index.state, matchers or ()
        if name == METRIC_NAME and not wanted and start_ms <= 0 and end_ms >= _ENDLESS_MS:
            return self._metrics(state, start_ms, guard or QueryGuard())
        values: set[str] = set()
        for shape, rows in self._active(state, wanted, start_ms, end_ms):
            if name == METRIC_NAME:
                values.add(shape.metric)
            elif name in shape.names:
                codes = np.unique(shape.codes[rows, shape.names.index(name)])
                values.update(state.symbols.texts(codes.tolist()))
        if start_ms <= state.horizon_ms:
            guard = guard or QueryGuard()
            values.update(self._archive.label_values(name, wanted, start_ms - 1, end_ms, guard))
        return sorted(values - {""})

    def _metrics(self, state: IndexState, start_ms: int, guard: QueryGuard) -> list[str]:
        """Of all time: only what the disk does not have yet is looked at in memory."""
        known = {*self._archive.metrics(guard)} if start_ms <= state.horizon_ms else set()
        for shape in list(state.shapes):
            refs = shape.refs[: shape.count]
            if shape.metric not in known and self._reader.active(refs, start_ms - 1, _ENDLESS_MS).any():
                known.add(shape.metric)
        return sorted(known - {""})

    def series_labels(
        self, matchers: tuple[Matcher, ...], start_ms: int, end_ms: int, guard: QueryGuard | None = None
    ) -> LabelFrame:
        return self._reader.series(matchers, start_ms - 1, end_ms, guard or QueryGuard()).labels

    def labels_in_memory(self) -> LabelFrame:
        """Of all series that are in memory, which is what a series costs."""
        return self._index.state.select(()).labels

    def metadata(self, metric: str | None) -> dict[str, list[Description]]:
        rows = self._intake.described()
        wanted = list(rows.values()) if metric is None else [rows[metric]] if metric in rows else []
        return {row.metric: [Description(row.kind, row.help_text, row.unit)] for row in wanted}

    def _active(
        self, state: IndexState, matchers: tuple[Matcher, ...], start_ms: int, end_ms: int
    ) -> Iterator[tuple[Shape, NDArray[np.intp]]]:
        for shape, rows in state.matching(matchers):
            kept = rows[self._reader.active(shape.refs[rows], start_ms - 1, end_ms)]
            if len(kept):
                yield shape, kept
