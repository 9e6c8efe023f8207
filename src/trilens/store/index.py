"""Which series are in memory: labels to reference and back.

Series come at any time and leave together, when `forget` puts another `IndexState` in the place of the
current one. A reader takes the state once and works on it; nothing is taken away from a state.
"""

from __future__ import annotations

import hashlib
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.model.labels import METRIC_NAME, Codes, Labels, Symbols
from trilens.store.admission import NEVER
from trilens.store.arrays import grown
from trilens.store.index_state import IndexState, MetricNumbers, Shape
from trilens.store.references import References

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_TEXT_WASTE = 8  # texts are sorted out when one series in so many has left since the last time


def series_id(labels: Labels, salt: int = 0) -> int:
    """A series' name on disk: 64 bits of its labels, so that every writer of a cluster agrees on it."""
    text = b"\xff".join(part.encode() for pair in labels for part in pair)  # a byte that no UTF-8 text has
    return _hashed(text, salt)


def block_ids(symbols: Symbols, metric: str, names: tuple[str, ...], codes: Codes) -> NDArray[np.uint64]:
    """The same of many series of one shape, whose values are encoded once each."""
    columns: dict[str, Iterable[bytes]] = {METRIC_NAME: repeat(_pair(METRIC_NAME, metric))} if metric else {}
    for name, column in zip(names, codes.T, strict=True):
        values, place = np.unique(column, return_inverse=True)
        pairs = [_pair(name, value) for value in symbols.texts(values.tolist())]
        columns[name] = map(pairs.__getitem__, place.tolist())
    rows = zip(range(len(codes)), *(columns[name] for name in sorted(columns)), strict=False)
    return np.fromiter((_hashed(b"\xff".join(row[1:])) for row in rows), np.uint64, len(codes))


def _pair(name: str, value: str) -> bytes:
    return b"\xff".join((name.encode(), value.encode()))


def _hashed(text: bytes, salt: int = 0) -> int:
    digest = hashlib.blake2b(text, digest_size=8, salt=salt.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


class Coded(NamedTuple):
    """Texts that occur often: `places[i]` is where the i-th one stands in `texts`."""

    texts: list[str]
    places: Codes


class WrittenOut(NamedTuple):
    """Labels of many series in an order of its own: `rows` says which of those asked for comes when."""

    rows: NDArray[np.intp]
    metrics: Coded  # one a series
    label_counts: NDArray[np.int64]  # labels of each series, the metric not among them
    names: Coded  # one a label, series after series
    values: Coded


class SeriesIndex:
    """One thread at a time adds and forgets, under the store's lock; readers take `state` at any time."""

    def __init__(self) -> None:
        self.state = IndexState(Symbols(), NEVER, MetricNumbers())
        self.references = References()
        self._ref_of_id: dict[int, int] = {}
        self._ids = np.zeros(1024, dtype=np.uint64)
        self._shape_of = np.zeros(1024, dtype=np.int32)  # places in the state's shapes
        self._row_of = np.zeros(1024, dtype=np.int32)
        self._metric_of = np.zeros(1024, dtype=np.int32)
        self._left = 0  # series that left since texts were last sorted out

    def __len__(self) -> int:
        return len(self._ref_of_id)

    @property
    def ids(self) -> NDArray[np.uint64]:
        """The id on disk of every reference."""
        return self._ids[: self.references.count]

    def find(self, labels: Labels) -> tuple[int, int | None]:
        """(id on disk, reference), the latter None for a series that is not here."""
        salt = 0
        while True:
            key = series_id(labels, salt)
            ref = self._ref_of_id.get(key)
            if ref is None or self.labels(ref) == labels:
                return key, ref
            salt += 1  # two label sets with one hash: the later one takes the next hash, always in this order

    def add(self, ref: int, key: int, labels: Labels) -> None:
        """A series that `find` did not find, as `ref`, which was taken from `references`."""
        names = tuple([n for n, _ in labels if n != METRIC_NAME])
        intern = self.state.symbols.intern
        codes = [intern(v) for n, v in labels if n != METRIC_NAME]
        number = self.state.shape_number(dict(labels).get(METRIC_NAME, ""), names)
        self._reserve()
        self._ids[ref] = key
        shape = self.state.shapes[number]
        self._note(ref, number, shape, shape.add_one(ref, codes))
        self._ref_of_id[key] = ref

    def find_block(
        self, metric: str, names: tuple[str, ...], codes: Codes
    ) -> tuple[NDArray[np.uint64], Codes] | None:
        """As `find`, for series of one shape; -1 for one that is not here.

        None where some can only be told apart one by one: two that are equal, or have the same hash.
        """
        ids = block_ids(self.state.symbols, metric, names, codes)
        refs = self.refs_of(ids)
        here = refs >= 0
        if len(np.unique(ids)) < len(ids) or not self._are(refs[here], metric, names, codes[here]):
            return None
        return ids, refs

    def _are(self, refs: Codes, metric: str, names: tuple[str, ...], codes: Codes) -> bool:
        """Whether these references are of the series of this shape that have these codes."""
        number = self.state.shape_number(metric, names)
        return bool((self._shape_of[refs] == number).all()) and np.array_equal(
            self.state.shapes[number].codes[self._row_of[refs]], codes
        )

    def add_block(
        self, refs: Codes, ids: NDArray[np.uint64], metric: str, names: tuple[str, ...], codes: Codes
    ) -> None:
        """Series of one shape, none of them here yet; `codes` are of the state's symbols."""
        number = self.state.shape_number(metric, names)
        self._reserve()
        self._ids[refs] = ids  # before the shape has them: a reader may ask at once
        shape = self.state.shapes[number]
        self._note(refs, number, shape, shape.add(refs, codes))
        self._ref_of_id.update(zip(ids.tolist(), refs.tolist(), strict=True))

    def _reserve(self) -> None:
        if self.references.count > len(self._ids):
            size = max(self.references.count, 2 * len(self._ids))
            self._ids = grown(self._ids, size)
            self._shape_of = grown(self._shape_of, size)
            self._row_of = grown(self._row_of, size)
            self._metric_of = grown(self._metric_of, size)

    def _note(self, refs: Codes | int, number: int, shape: Shape, rows: Codes | int) -> None:
        self._shape_of[refs] = number
        self._row_of[refs] = rows
        self._metric_of[refs] = shape.metric_number

    def forget(self, refs: Codes, horizon_ms: int) -> None:
        """Let series go that have no sample after `horizon_ms`."""
        gone = np.zeros(self.references.count, dtype=bool)
        gone[refs] = True
        self._left += len(refs)
        for key in self._ids[refs].tolist():
            del self._ref_of_id[key]
        sort_out = self._left * _TEXT_WASTE >= len(self)
        before, after = self.state, self.state.without(gone, horizon_ms, sort_out_texts=sort_out)
        if sort_out:
            self._left = 0
        for number, shape in enumerate(after.shapes):
            self._note(shape.refs[: shape.count], number, shape, np.arange(shape.count, dtype=np.int32))
        self.state = after
        self.references.retire(refs, before)

    def refs_of(self, ids: NDArray[np.uint64]) -> Codes:
        """The references of ids on disk, -1 for one that is not known."""
        get = self._ref_of_id.get
        return np.fromiter((get(i, -1) for i in ids.tolist()), dtype=np.int32, count=len(ids))

    def labels(self, ref: int) -> Labels:
        shape = self.state.shapes[self._shape_of[ref]]
        values = self.state.symbols.texts(shape.codes[self._row_of[ref]].tolist())
        pairs = [*zip(shape.names, values, strict=True)]
        if shape.metric:
            pairs.append((METRIC_NAME, shape.metric))
        return tuple(sorted(pairs))

    def written_out(self, refs: Codes) -> WrittenOut:
        """The labels of these series, for thousands of them at once."""
        shape_of = self._shape_of[refs]
        rows = np.argsort(shape_of, kind="stable")
        numbers, counts = np.unique(shape_of, return_counts=True)
        shapes = [self.state.shapes[number] for number in numbers.tolist()]
        of_shape = np.split(rows, np.cumsum(counts)[:-1])
        names = MetricNumbers()
        name_places, codes = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for shape, own in zip(shapes, of_shape, strict=True):
            name_places.append(np.tile(np.array([names.number(n) for n in shape.names], np.int32), len(own)))
            codes.append(shape.codes[self._row_of[refs[own]]].reshape(-1))
        distinct, values = np.unique(np.concatenate(codes), return_inverse=True)
        return WrittenOut(
            rows,
            Coded(self.state.metrics.names, self._metric_of[refs[rows]]),
            np.repeat([len(shape.names) for shape in shapes], counts),
            Coded(names.names, np.concatenate(name_places)),
            Coded(self.state.symbols.texts(distinct.tolist()), values.astype(np.int32)),
        )

    def metric_codes(self, refs: Codes) -> tuple[list[str], Codes]:
        """Each reference's metric as a place in the list of metric names, which at most grows."""
        return self.state.metrics.names, self._metric_of[refs]
