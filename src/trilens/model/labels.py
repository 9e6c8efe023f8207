"""Labels: as people write them, and integer-coded in columns for whole-matrix work.

A fleet repeats few strings many times. Every label name and value is interned once in `Symbols`; a set of
series is a `LabelFrame`: one int32 column per label name. Grouping, matching and dropping labels are then
numpy operations on small integers, and text appears again only at the edge.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

METRIC_NAME: Final = "__name__"

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""One series' labels: (name, value) pairs sorted by name, no empty values, the metric as `__name__`."""

Codes: TypeAlias = NDArray[np.int32]


def make_labels(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> Labels:
    """Sort and drop empty values: a label with an empty value is the same as no label."""
    items = pairs.items() if hasattr(pairs, "items") else pairs
    return tuple(sorted((n, v) for n, v in items if v))


class Symbols:
    """Strings as small integers. Code 0 is the empty string, which is also how "no such label" reads."""

    _FORK_BASE = 1 << 30  # a fork's own codes start here, so that the two ranges never meet

    def __init__(self, parent: Symbols | None = None) -> None:
        self._parent = parent
        self._base = self._FORK_BASE if parent is not None else 0
        self._texts: list[str] = [] if parent is not None else [""]
        self._codes: dict[str, int] = {} if parent is not None else {"": 0}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def fork(self) -> Symbols:
        """A query's own extension: it reads this table and keeps new strings to itself."""
        return Symbols(self)

    def reads(self, other: Symbols) -> bool:
        """Whether a code of `other` means the same here."""
        return self is other or (self._parent is not None and self._parent.reads(other))

    def settled(self, codes: Codes) -> Symbols:
        """The table that these codes are of: what this one extends, if none is its own."""
        if self._parent is None or (codes.size and int(codes.max()) >= self._base):
            return self
        return self._parent.settled(codes)

    def find(self, text: str) -> int | None:
        """The code of `text`, or None when it was never interned."""
        code = self._codes.get(text)
        if code is None and self._parent is not None:
            return self._parent.find(text)
        return code

    def intern(self, text: str) -> int:
        code = self.find(text)
        if code is None:
            with self._lock:
                code = self._codes.get(text)
                if code is None:
                    code = self._base + len(self._texts)
                    self._texts.append(text)
                    self._codes[text] = code
        return code

    def intern_all(self, texts: Iterable[str]) -> Codes:
        return np.fromiter((self.intern(t) for t in texts), dtype=np.int32)

    def text(self, code: int) -> str:
        if self._parent is not None and code < self._base:
            return self._parent.text(code)
        return self._texts[code - self._base]

    def texts(self, codes: Sequence[int]) -> list[str]:
        if self._parent is None:
            return [*map(self._texts.__getitem__, codes)]
        if max(codes, default=0) < self._base:
            return self._parent.texts(codes)
        return [self.text(c) for c in codes]


@dataclass(frozen=True, slots=True)
class LabelFrame:
    """The labels of n series: `codes[i, j]` is series i's value of label `names[j]`, 0 where it has none."""

    symbols: Symbols
    names: tuple[str, ...]
    codes: Codes

    @classmethod
    def empty(cls, symbols: Symbols) -> LabelFrame:
        return cls(symbols, (), np.zeros((0, 0), dtype=np.int32))

    @classmethod
    def of(cls, symbols: Symbols, rows: Sequence[Mapping[str, str] | Labels]) -> LabelFrame:
        """Build from written-out labels; for tests, small sources and single rows."""
        dicts = [dict(row) for row in rows]
        names = tuple(sorted({name for row in dicts for name in row}))
        codes = np.zeros((len(dicts), len(names)), dtype=np.int32)
        for i, row in enumerate(dicts):
            for j, name in enumerate(names):
                codes[i, j] = symbols.intern(row.get(name, ""))
        return cls(symbols, names, codes)

    def __len__(self) -> int:
        return len(self.codes)

    def coded_by(self, symbols: Symbols) -> LabelFrame:
        """The same labels in the codes of `symbols`.

        A source that forgets series starts a new table of symbols from time to time, so frames that came one
        after the other may speak different codes. Only codes of one table can be compared.
        """
        if symbols.reads(self.symbols):
            return LabelFrame(symbols, self.names, self.codes)
        codes, place = np.unique(self.codes, return_inverse=True)
        known = symbols.intern_all(self.symbols.texts(codes.tolist()))
        return LabelFrame(symbols, self.names, known[place].reshape(self.codes.shape))

    def settled(self) -> LabelFrame:
        """The same labels by the source's own table, where they hold no string that only the query knows.

        Frames of two queries can then be compared code by code.
        """
        symbols = self.symbols.settled(self.codes)
        return self if symbols is self.symbols else LabelFrame(symbols, self.names, self.codes)

    def column(self, name: str) -> Codes:
        """Every series' code for one label; zeros when none has it."""
        if name in self.names:
            return self.codes[:, self.names.index(name)]
        return np.zeros(len(self), dtype=np.int32)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> LabelFrame:
        return LabelFrame(self.symbols, self.names, self.codes[index])

    def keep(self, names: Iterable[str]) -> LabelFrame:
        wanted = set(names)
        at = [j for j, name in enumerate(self.names) if name in wanted]
        return LabelFrame(self.symbols, tuple(self.names[j] for j in at), self.codes[:, at])

    def drop(self, names: Iterable[str]) -> LabelFrame:
        unwanted = set(names)
        if unwanted.isdisjoint(self.names):
            return self
        return self.keep(n for n in self.names if n not in unwanted)

    def with_column(self, name: str, codes: Codes) -> LabelFrame:
        """Add a label, or replace it; names stay sorted."""
        rest = self.drop((name,))
        at = sum(1 for n in rest.names if n < name)
        columns = (
            np.insert(rest.codes, at, codes, axis=1)
            if len(self)
            else np.zeros((0, len(rest.names) + 1), np.int32)
        )
        return LabelFrame(self.symbols, (*rest.names[:at], name, *rest.names[at:]), columns.astype(np.int32))

    def labels(self, row: int) -> dict[str, str]:
        """One series written out, sorted by name, absent labels left out."""
        text = self.symbols.text
        return {n: text(c) for n, c in zip(self.names, self.codes[row].tolist(), strict=True) if c}

    def groups(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Number the distinct rows in first-seen order: (group of each row, first row of each group)."""
        n = len(self)
        if n == 0 or not self.names:
            return np.zeros(n, dtype=np.intp), np.zeros(min(n, 1), dtype=np.intp)
        key = _row_keys(self.codes)
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return rank[inverse.reshape(-1)], first[order]


def _row_keys(codes: Codes) -> NDArray[np.int64]:
    """One integer per row, equal exactly where the rows are equal."""
    key = np.zeros(len(codes), dtype=np.int64)
    size = 1
    for j in range(codes.shape[1]):
        values, column = np.unique(codes[:, j], return_inverse=True)
        if len(values) == 1:
            continue
        if size * len(values) >= 1 << 62:  # renumber before the product would overflow
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key = key * len(values) + column.reshape(-1)
        size *= len(values)
    return key
