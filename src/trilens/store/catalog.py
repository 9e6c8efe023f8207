"""Which labels, values and series there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.model.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame
    from trilens.model.series import Matcher
    from trilens.store.index import SeriesIndex, Shape
    from trilens.store.intake import Intake
    from trilens.store.reader import Reader


class Description(NamedTuple):
    kind: str
    help: str
    unit: str


class Catalog:
    """Thread-safe. Answers hold for series that may have samples in the range."""

    def __init__(self, index: SeriesIndex, reader: Reader, intake: Intake) -> None:
        self._index = index
        self._reader = reader
        self._intake = intake

    def label_names(self, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int) -> list[str]:
        names: set[str] = set()
        for shape, _ in self._active(matchers, start_ms, end_ms):
            names.update(shape.names)
            if shape.metric:
                names.add(METRIC_NAME)
        return sorted(names)

    def label_values(
        self, name: str, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int
    ) -> list[str]:
        values: set[str] = set()
        for shape, rows in self._active(matchers, start_ms, end_ms):
            if name == METRIC_NAME:
                values.add(shape.metric)
            elif name in shape.names:
                codes = np.unique(shape.codes[rows, shape.names.index(name)])
                values.update(self._index.symbols.texts(codes.tolist()))
        return sorted(values - {""})

    def series_labels(self, matchers: tuple[Matcher, ...], start_ms: int, end_ms: int) -> LabelFrame:
        return self._reader.series(matchers, start_ms - 1, end_ms).labels

    def metadata(self, metric: str | None) -> dict[str, list[Description]]:
        rows = self._intake.described()
        wanted = list(rows.values()) if metric is None else [rows[metric]] if metric in rows else []
        return {row.metric: [Description(row.kind, row.help_text, row.unit)] for row in wanted}

    def _active(
        self, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int
    ) -> Iterator[tuple[Shape, NDArray[np.intp]]]:
        for shape, rows in self._index.matching(matchers or ()):
            kept = rows[self._reader.active(shape.refs[rows], start_ms - 1, end_ms)]
            if len(kept):
                yield shape, kept
