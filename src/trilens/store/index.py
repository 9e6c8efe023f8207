"""Which series exist: labels to reference and back, and selection by matchers, all in memory.

Series with the same metric name and the same label names share a *shape*: a table of int32 codes, one row a
series, one column a label. A selector finds its shapes by metric name and then compares whole columns, which
for ten thousand rows takes well under a millisecond; no inverted lists have to be kept, and a series costs
about two hundred bytes. The `series` table on disk is for durability; this is the query path.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trilens.model.labels import METRIC_NAME, Codes, LabelFrame, Labels, Symbols
from trilens.store.matching import TextMatcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from trilens.model.series import Matcher

_T = TypeVar("_T", bound=np.generic)


def series_id(labels: Labels, salt: int = 0) -> int:
    """A series' name on disk: 64 bits of its labels, so that every writer of a cluster agrees on it."""
    text = b"\xff".join(part.encode() for pair in labels for part in pair)  # a byte that no UTF-8 text has
    digest = hashlib.blake2b(text, digest_size=8, salt=salt.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


@dataclass(slots=True, eq=False)
class Shape:
    """All series of one metric that have the same label names; rows below `count` never change."""

    metric: str
    names: tuple[str, ...]  # sorted, without the metric name
    codes: Codes
    refs: Codes
    metric_number: int
    count: int = 0

    def reserve(self, extra: int) -> None:
        need = self.count + extra
        if need > len(self.refs):
            grown = max(need, 2 * len(self.refs))
            self.codes = _grown(self.codes, grown)
            self.refs = _grown(self.refs, grown)


@dataclass(frozen=True, slots=True)
class Selection:
    refs: Codes
    labels: LabelFrame

    def __len__(self) -> int:
        return len(self.refs)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Selection:
        return Selection(self.refs[index], self.labels.take(index))


class SeriesIndex:
    """Thread-safe: one writer at a time; readers see every series that was added before they looked."""

    def __init__(self, symbols: Symbols | None = None) -> None:
        self.symbols = symbols or Symbols()
        self._shapes: list[Shape] = []
        self._shape_at: dict[tuple[str, tuple[str, ...]], int] = {}
        self._by_metric: dict[str, list[Shape]] = {}
        self._metrics: list[str] = []
        self._metric_of = np.zeros(1024, dtype=np.int32)
        self._ref_of_id: dict[int, int] = {}
        self._ids = np.zeros(1024, dtype=np.uint64)
        self._shape_of = np.zeros(1024, dtype=np.int32)
        self._row_of = np.zeros(1024, dtype=np.int32)
        self._count = 0
        self._lock = threading.Lock()
        self._matchers: dict[Matcher, TextMatcher] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def ids(self) -> NDArray[np.uint64]:
        """The id on disk of every reference."""
        return self._ids[: self._count]

    def add(self, labels: Labels) -> tuple[int, bool]:
        """(reference, whether it is new)."""
        salt = 0
        while True:
            key = series_id(labels, salt)
            ref = self._ref_of_id.get(key)
            if ref is None:
                return self._insert(key, labels), True
            if self.labels(ref) == labels:
                return ref, False
            salt += 1  # two label sets with one hash: the later one takes the next hash, always in this order

    def _insert(self, key: int, labels: Labels) -> int:
        names = tuple(n for n, _ in labels if n != METRIC_NAME)
        metric = dict(labels).get(METRIC_NAME, "")
        values = self.symbols.intern_all(v for n, v in labels if n != METRIC_NAME)
        with self._lock:
            known = self._ref_of_id.get(key)
            if known is not None:
                return known
            refs = self._extend(np.array([key], dtype=np.uint64), metric, names, values.reshape(1, -1))
            return int(refs[0])

    def add_block(self, ids: NDArray[np.uint64], metric: str, names: tuple[str, ...], codes: Codes) -> Codes:
        """Take series that were on disk, all of one shape and none of them known yet."""
        with self._lock:
            return self._extend(ids, metric, names, codes)

    def _extend(self, ids: NDArray[np.uint64], metric: str, names: tuple[str, ...], codes: Codes) -> Codes:
        number = self._shape_at.get((metric, names))
        if number is None:
            number = self._new_shape(metric, names)
        shape = self._shapes[number]
        extra = len(ids)
        shape.reserve(extra)
        rows = np.arange(shape.count, shape.count + extra, dtype=np.int32)
        refs = np.arange(self._count, self._count + extra, dtype=np.int32)
        shape.codes[rows] = codes
        shape.refs[rows] = refs
        end = self._count + extra
        if end > len(self._ids):
            size = max(end, 2 * len(self._ids))
            self._ids = _grown(self._ids, size)
            self._shape_of = _grown(self._shape_of, size)
            self._row_of = _grown(self._row_of, size)
            self._metric_of = _grown(self._metric_of, size)
        self._ids[refs] = ids
        self._shape_of[refs] = number
        self._row_of[refs] = rows
        self._metric_of[refs] = shape.metric_number
        # Readers look at these counts last, so they go up only once the rows are there.
        shape.count += extra
        self._count = end
        self._ref_of_id.update(zip(ids.tolist(), refs.tolist(), strict=True))
        return refs

    def _new_shape(self, metric: str, names: tuple[str, ...]) -> int:
        number = len(self._shapes)
        self.symbols.intern(metric)
        siblings = self._by_metric.setdefault(metric, [])
        if siblings:
            metric_number = siblings[0].metric_number
        else:
            metric_number = len(self._metrics)
            self._metrics.append(metric)
        codes, refs = np.zeros((4, len(names)), np.int32), np.zeros(4, np.int32)
        shape = Shape(metric, names, codes, refs, metric_number)
        self._shapes.append(shape)
        self._shape_at[metric, names] = number
        siblings.append(shape)
        return number

    def refs_of(self, ids: NDArray[np.uint64]) -> Codes:
        """The references of ids on disk, -1 for one that is not known."""
        get = self._ref_of_id.get
        return np.fromiter((get(i, -1) for i in ids.tolist()), dtype=np.int32, count=len(ids))

    def refs_of_metric(self, metric: str) -> Codes:
        shapes = self._by_metric.get(metric, ())
        return np.concatenate([np.zeros(0, np.int32), *(s.refs[: s.count] for s in shapes)])

    def labels(self, ref: int) -> Labels:
        shape = self._shapes[self._shape_of[ref]]
        values = self.symbols.texts(shape.codes[self._row_of[ref]].tolist())
        pairs = [*zip(shape.names, values, strict=True)]
        if shape.metric:
            pairs.append((METRIC_NAME, shape.metric))
        return tuple(sorted(pairs))

    def metric_codes(self, refs: Codes) -> tuple[list[str], Codes]:
        """Each reference's metric as an index into the list of all metric names, which only grows."""
        return self._metrics, self._metric_of[refs]

    def select(self, matchers: Sequence[Matcher]) -> Selection:
        """Every series that matches all of `matchers`."""
        return self._frame(self.matching(matchers))

    def matching(self, matchers: Sequence[Matcher]) -> list[tuple[Shape, NDArray[np.intp]]]:
        """The same, as rows of shapes: enough for who does not need every label of every series."""
        parts: list[tuple[Shape, NDArray[np.intp]]] = []
        on_labels = [(m.name, self._matcher(m)) for m in matchers if m.name != METRIC_NAME]
        for shape in self._candidates([m for m in matchers if m.name == METRIC_NAME]):
            rows = self._matching_rows(shape, on_labels)
            if len(rows):
                parts.append((shape, rows))
        return parts

    def series_of(self, metrics: Iterable[str]) -> int:
        """How many series these metrics have."""
        return sum(shape.count for metric in metrics for shape in self._by_metric.get(metric, ()))

    def _candidates(self, on_metric: Sequence[Matcher]) -> Iterable[Shape]:
        for m in on_metric:
            if m.op == "=":
                found = self._by_metric.get(m.value, ())
                rest = [self._matcher(o) for o in on_metric if o is not m]
                return [s for s in list(found) if all(r.matches_text(s.metric) for r in rest)]
        tests = [self._matcher(m) for m in on_metric]
        return [s for s in list(self._shapes) if all(t.matches_text(s.metric) for t in tests)]

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

    def _matcher(self, matcher: Matcher) -> TextMatcher:
        found = self._matchers.get(matcher)
        if found is None:
            if len(self._matchers) > 512:  # ad-hoc queries come and go; rules and pages fit many times
                self._matchers.clear()
            found = self._matchers[matcher] = TextMatcher(matcher, self.symbols)
        return found

    def _frame(self, parts: list[tuple[Shape, NDArray[np.intp]]]) -> Selection:
        if not parts:
            return Selection(np.zeros(0, np.int32), LabelFrame.empty(self.symbols))
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
        return Selection(refs, LabelFrame(self.symbols, names, codes))


def _grown(array: NDArray[_T], size: int) -> NDArray[_T]:
    larger = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
