"""The series in memory as readers see them: tables of codes, and selection by matchers.

Series with the same metric name and the same label names share a *shape*: a table of int32 codes, one row a
series, one column a label. A selector finds its shapes by metric name and then compares whole columns, which
for ten thousand rows takes well under a millisecond; no inverted lists have to be kept, and a series costs
about two hundred bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.labels import METRIC_NAME, Codes, LabelFrame, Symbols
from trilens.store.arrays import grown
from trilens.store.matching import TextMatcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.model.matcher import Matcher


@dataclass(slots=True, eq=False)
class Shape:
    """All series of one metric that have the same label names; rows below `count` never change."""

    metric: str
    names: tuple[str, ...]  # sorted, without the metric name
    codes: Codes
    refs: Codes
    metric_number: int
    count: int = 0

    def add(self, refs: Codes, codes: Codes) -> Codes:
        """The rows that the series got."""
        begin, end = self.count, self.count + len(refs)
        self._reserve(end)
        self.codes[begin:end] = codes
        self.refs[begin:end] = refs
        self.count = end  # readers look at it last, so it goes up only once the rows are there
        return np.arange(begin, end, dtype=np.int32)

    def add_one(self, ref: int, codes: list[int]) -> int:
        row = self.count
        self._reserve(row + 1)
        self.codes[row] = codes
        self.refs[row] = ref
        self.count = row + 1
        return row

    def _reserve(self, need: int) -> None:
        if need > len(self.refs):
            size = max(need, 2 * len(self.refs))
            self.codes = grown(self.codes, size)
            self.refs = grown(self.refs, size)


def by_shape(labels: LabelFrame) -> Iterator[tuple[NDArray[np.intp], str, tuple[str, ...], Codes]]:
    """The rows of each shape among these: which they are, metric, label names, codes."""
    present = LabelFrame(labels.symbols, labels.names, (labels.codes != 0).astype(np.int32))
    shapes, first = present.with_column(METRIC_NAME, labels.column(METRIC_NAME)).groups()
    for number, at in enumerate(first.tolist()):
        rows = np.flatnonzero(shapes == number)
        names = tuple(n for n in labels.labels(at) if n != METRIC_NAME)
        columns = [labels.names.index(name) for name in names]
        metric = labels.symbols.text(int(labels.column(METRIC_NAME)[at]))
        yield rows, metric, names, labels.codes[rows][:, columns]


@dataclass(frozen=True, slots=True)
class Selection:
    """Series that were found, and where: as long as it is held, their references mean them."""

    refs: Codes
    labels: LabelFrame
    state: IndexState
    siblings_known: bool = True  # the state has every series that their metrics have in the time asked for

    def __len__(self) -> int:
        return len(self.refs)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Selection:
        return replace(self, refs=self.refs[index], labels=self.labels.take(index))


class MetricNumbers:
    """Metric names by number, as the rows to be written name them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, metric: str) -> int:
        number = self._numbers.get(metric)
        if number is None:
            number = self._numbers[metric] = len(self.names)
            self.names.append(metric)
        return number


class IndexState:
    """Series are added to it and never taken away: readers need no lock.

    It has every series with a sample after `horizon_ms`, and of the others those in `recalled`.
    """

    def __init__(self, symbols: Symbols, horizon_ms: int, metrics: MetricNumbers) -> None:
        self.symbols = symbols
        self.horizon_ms = horizon_ms
        self.shapes: list[Shape] = []
        self.metrics = metrics
        self.recalled: dict[frozenset[Matcher], list[tuple[int, int]]] = {}
        self._shape_at: dict[tuple[str, tuple[str, ...]], int] = {}
        self._by_metric: dict[str, list[Shape]] = {}
        self._matchers: dict[Matcher, TextMatcher] = {}

    def shape_number(self, metric: str, names: tuple[str, ...]) -> int:
        """The place in `shapes` of this shape, made where there is none."""
        number = self._shape_at.get((metric, names))
        if number is None:
            self.symbols.intern(metric)
            codes, refs = np.zeros((4, len(names)), np.int32), np.zeros(4, np.int32)
            number = self._put(Shape(metric, names, codes, refs, self.metrics.number(metric)))
        return number

    def without(self, gone: NDArray[np.bool_], horizon_ms: int, *, sort_out_texts: bool) -> IndexState:
        """What is left when the series with gone[reference] leave. Shapes that lose none are shared."""
        if sort_out_texts:
            kept = [(shape, ~gone[shape.refs[: shape.count]]) for shape in self.shapes]
            return self._recoded(kept, horizon_ms)
        after = IndexState(self.symbols, horizon_ms, self.metrics)
        after._matchers = self._matchers  # they know texts by code, and the codes stay
        for shape in self.shapes:
            refs = shape.refs[: shape.count]
            leaving = gone[refs]
            if not leaving.any():
                after._put(shape)
            elif not leaving.all():
                codes = shape.codes[: shape.count][~leaving]
                refs = refs[~leaving]
                after._put(Shape(shape.metric, shape.names, codes, refs, shape.metric_number, len(refs)))
        return after

    def _recoded(self, kept: list[tuple[Shape, NDArray[np.bool_]]], horizon_ms: int) -> IndexState:
        """These rows, in a new table of symbols that has no other texts, and with new metric numbers."""
        tables = [
            (shape, shape.refs[: shape.count][rows], shape.codes[: shape.count][rows])
            for shape, rows in kept
            if rows.any()
        ]
        used = np.zeros(len(self.symbols), dtype=bool)
        for _, _, codes in tables:
            used[codes] = True
        after = IndexState(Symbols(), horizon_ms, MetricNumbers())
        new_code = np.zeros(len(used), dtype=np.int32)
        new_code[used] = after.symbols.intern_all(self.symbols.texts(np.flatnonzero(used).tolist()))
        for shape, refs, codes in tables:
            after.shapes[after.shape_number(shape.metric, shape.names)].add(refs, new_code[codes])
        return after

    def _put(self, shape: Shape) -> int:
        self.shapes.append(shape)
        self._shape_at[shape.metric, shape.names] = len(self.shapes) - 1
        self._by_metric.setdefault(shape.metric, []).append(shape)
        return len(self.shapes) - 1

    def refs_of_metric(self, metric: str) -> Codes:
        shapes = self._by_metric.get(metric, ())
        return np.concatenate([np.zeros(0, np.int32), *(s.refs[: s.count] for s in shapes)])

    def series_of(self, metrics: Iterable[str]) -> int:
        """How many series these metrics have."""
        return sum(shape.count for metric in metrics for shape in self._by_metric.get(metric, ()))

    def select(self, matchers: Sequence[Matcher]) -> Selection:
        """Every series that matches all of `matchers`."""
        return self._selection(self.matching(matchers))

    def matching(self, matchers: Sequence[Matcher]) -> list[tuple[Shape, NDArray[np.intp]]]:
        """The same, as rows of shapes: enough for who does not need every label of every series."""
        parts: list[tuple[Shape, NDArray[np.intp]]] = []
        on_labels = [(m.name, self.text_matcher(m)) for m in matchers if m.name != METRIC_NAME]
        for shape in self._candidates([m for m in matchers if m.name == METRIC_NAME]):
            rows = self._matching_rows(shape, on_labels)
            if len(rows):
                parts.append((shape, rows))
        return parts

    def text_matcher(self, matcher: Matcher) -> TextMatcher:
        """Raises PromQLEvalError for a bad regular expression."""
        found = self._matchers.get(matcher)
        if found is None:
            if len(self._matchers) > 512:  # ad-hoc queries come and go; rules and pages fit many times
                self._matchers.clear()
            found = self._matchers[matcher] = TextMatcher(matcher, self.symbols)
        return found

    def _candidates(self, on_metric: Sequence[Matcher]) -> Iterable[Shape]:
        for m in on_metric:
            if m.op == "=":
                found = self._by_metric.get(m.value, ())
                rest = [self.text_matcher(o) for o in on_metric if o is not m]
                return [s for s in list(found) if all(r.matches_text(s.metric) for r in rest)]
        if not on_metric:
            return list(self.shapes)
        metrics = list(self._by_metric)  # all at once: there are thousands
        codes = np.array([self.symbols.intern(metric) for metric in metrics], np.int32)
        keep = np.all([self.text_matcher(m).matches(codes) for m in on_metric], axis=0)
        wanted = {metric for metric, is_kept in zip(metrics, keep.tolist(), strict=True) if is_kept}
        return [s for s in list(self.shapes) if s.metric in wanted]

    def _matching_rows(self, shape: Shape, matchers: Sequence[tuple[str, TextMatcher]]) -> NDArray[np.intp]:
        count = shape.count
        codes = shape.codes
        keep: NDArray[np.bool_] | None = None
        for name, matcher in matchers:
            if name not in shape.names:
                if not matcher.matches_text(""):
                    return np.zeros(0, dtype=np.intp)
                continue
            hit = matcher.matches(codes[:count, shape.names.index(name)])
            keep = hit if keep is None else keep & hit
        return np.arange(count) if keep is None else np.flatnonzero(keep)

    def _selection(self, parts: list[tuple[Shape, NDArray[np.intp]]]) -> Selection:
        if not parts:
            return Selection(np.zeros(0, np.int32), LabelFrame.empty(self.symbols), self)
        refs = np.concatenate([shape.refs[rows] for shape, rows in parts])
        names = tuple(sorted({METRIC_NAME, *(n for shape, _ in parts for n in shape.names)}))
        place = {name: j for j, name in enumerate(names)}
        codes = np.zeros((len(refs), len(names)), dtype=np.int32)
        at = 0
        for shape, rows in parts:
            block = codes[at : at + len(rows)]
            block[:, place[METRIC_NAME]] = self.symbols.intern(shape.metric)
            if shape.names:
                block[:, [place[n] for n in shape.names]] = shape.codes[rows]
            at += len(rows)
        return Selection(refs, LabelFrame(self.symbols, names, codes), self)
