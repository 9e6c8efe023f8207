"""What expressions evaluate to: a vector at every step, all steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trilens.model.errors import PromQLEvalError
from trilens.model.labels import METRIC_NAME, LabelFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.series import Floats, Times

Bools: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.intp]

METADATA_LABELS: Final = (METRIC_NAME, "__type__", "__unit__")
"""What describes the metric rather than the series; it no longer holds once the value has changed meaning."""

DUPLICATE_LABELS: Final = "vector cannot contain metrics with the same labelset"


@dataclass(frozen=True, slots=True)
class Grid:
    """The times a query is evaluated at: `count` of them from `start`, `step` apart (milliseconds)."""

    start: int
    step: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.step * (self.count - 1)

    @property
    def times(self) -> Times:
        return self.start + self.step * np.arange(self.count, dtype=np.int64)

    def shifted(self, by_ms: int) -> Grid:
        return Grid(self.start + by_ms, self.step, self.count)


@dataclass(frozen=True, slots=True)
class Vector:
    """`values[i, k]` of series i at step k, where `present[i, k]`; present None means all are.

    Where it is not present the value has no meaning: missing is not NaN. `drop_name[i]` marks a series whose
    metric name (and type and unit) goes at the very end: until then `label_replace` may still read it.
    """

    labels: LabelFrame
    values: Floats
    present: Bools | None
    drop_name: Bools

    @classmethod
    def empty(cls, labels: LabelFrame, steps: int) -> Vector:
        none = labels.take(slice(0, 0))
        return cls(none, np.zeros((0, steps)), None, np.zeros(0, dtype=bool))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def steps(self) -> int:
        return int(self.values.shape[1])

    @property
    def mask(self) -> Bools:
        return np.ones(self.values.shape, dtype=bool) if self.present is None else self.present

    def replace(
        self,
        *,
        labels: LabelFrame | None = None,
        values: Floats | None = None,
        present: Bools | None = None,
        drop_name: Bools | bool | None = None,
    ) -> Vector:
        """A copy with parts exchanged; `present` narrows what is present already."""
        if present is None:
            present = self.present
        elif self.present is not None:
            present = present & self.present
        if isinstance(drop_name, bool):
            drop_name = np.full(len(self), drop_name)
        return Vector(
            self.labels if labels is None else labels,
            self.values if values is None else values,
            present,
            self.drop_name if drop_name is None else drop_name,
        )

    @property
    def some_present(self) -> Bools:
        """Which series have a value at any step."""
        if self.present is None:
            return np.ones(len(self), dtype=bool)
        return np.asarray(self.present.any(axis=1))

    def take(self, rows: Rows | Bools) -> Vector:
        present = None if self.present is None else self.present[rows]
        return Vector(self.labels.take(rows), self.values[rows], present, self.drop_name[rows])

    def only_present(self) -> Vector:
        """Without the series that have no value at any step."""
        rows = self.some_present
        return self if rows.all() else self.take(rows)

    def spread(self, steps: int) -> Vector:
        """One step's vector, seen at every step, without a copy."""
        present = None if self.present is None else np.broadcast_to(self.present, (len(self), steps))
        values = np.broadcast_to(self.values, (len(self), steps))
        return Vector(self.labels, values, present, self.drop_name)


@dataclass(frozen=True, slots=True)
class Scalar:
    values: Floats  # one for each step


@dataclass(frozen=True, slots=True)
class Text:
    value: str


Value: TypeAlias = Vector | Scalar | Text


def stack_labels(frames: Sequence[LabelFrame]) -> LabelFrame:
    """The series of several frames one below the other, with the labels that any of them has."""
    names = tuple(sorted({name for frame in frames for name in frame.names}))
    codes = np.zeros((sum(map(len, frames)), len(names)), dtype=np.int32)
    at = 0
    symbols = frames[0].symbols
    for frame in (frame.coded_by(symbols) for frame in frames):
        for j, name in enumerate(names):
            if name in frame.names:
                codes[at : at + len(frame), j] = frame.column(name)
        at += len(frame)
    return LabelFrame(symbols, names, codes)


def stack(vectors: Sequence[Vector]) -> Vector:
    vectors = [v for v in vectors if len(v)] or vectors[:1]
    if len(vectors) == 1:
        return vectors[0]
    all_present = all(v.present is None for v in vectors)
    return Vector(
        stack_labels([v.labels for v in vectors]),
        np.concatenate([v.values for v in vectors]),
        None if all_present else np.concatenate([v.mask for v in vectors]),
        np.concatenate([v.drop_name for v in vectors]),
    )


def merge_equal(vector: Vector) -> Vector:
    """Join rows with the same labels, which is an error where two of them have a value at one step."""
    keyed = vector.labels
    if vector.drop_name.any() and not vector.drop_name.all():
        # Rows that keep their name and rows that lose it stay apart until the end.
        keyed = keyed.with_column("", vector.drop_name.astype(np.int32))
    group, first = keyed.groups()
    if len(first) == len(vector):
        return vector
    counts = refuse_overlap(group, first, vector.mask, DUPLICATE_LABELS)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(first)))
    values = np.add.reduceat(np.where(vector.mask, vector.values, 0.0)[order], starts, axis=0)
    return Vector(vector.labels.take(first), values, counts > 0, vector.drop_name[first])


def refuse_overlap(group: Rows, first: Rows, present: Bools, error: str) -> NDArray[np.int32]:
    """Raise where two rows of a group have a value at the same step; else how many have, 0 or 1."""
    if len(first) == len(group):
        return present.astype(np.int32)
    order = np.argsort(group, kind="stable")
    _, starts = np.unique(group[order], return_index=True)
    counts: NDArray[np.int32] = np.add.reduceat(present[order], starts, axis=0, dtype=np.int32)
    if counts.max(initial=0) > 1:
        raise PromQLEvalError(error)
    return counts


def apply_name_dropping(vector: Vector) -> Vector:
    """The end of a query: take away the names that were marked, and join what is the same then."""
    if not vector.drop_name.any():
        return vector
    if vector.drop_name.all():
        labels = vector.labels.drop(METADATA_LABELS)
    else:
        codes = vector.labels.codes.copy()
        for j, name in enumerate(vector.labels.names):
            if name in METADATA_LABELS:
                codes[vector.drop_name, j] = 0
        labels = LabelFrame(vector.labels.symbols, vector.labels.names, codes)
    return merge_equal(vector.replace(labels=labels, drop_name=False).only_present())


def label_order(labels: LabelFrame) -> Rows:
    """Row order as Prometheus sorts label sets: by name, then value, a shorter set before its extensions."""
    n = len(labels)
    key = np.zeros(n, dtype=np.int64)
    size = 1
    later = np.zeros(n, dtype=bool)  # whether the row has a label in a column further right
    ranks: list[tuple[NDArray[np.int64], int]] = []
    for j in reversed(range(len(labels.names))):
        column = labels.codes[:, j]
        codes, inverse = np.unique(column, return_inverse=True)
        texts = labels.symbols.texts(codes.tolist())
        rank_of = np.empty(len(codes), dtype=np.int64)
        rank_of[sorted(range(len(codes)), key=texts.__getitem__)] = np.arange(1, len(codes) + 1)
        rank = rank_of[inverse.reshape(-1)]
        # A row without this label compares by its next one, whose name is greater; if there is none, it is
        # the shorter set and comes first.
        rank = np.where(column == 0, np.where(later, len(codes) + 1, 0), rank)
        later |= column != 0
        ranks.append((rank, len(codes) + 2))
    for rank, width in reversed(ranks):
        if size * width >= 1 << 62:
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key = key.reshape(-1) * width + rank
        size *= width
    return np.argsort(key, kind="stable")
