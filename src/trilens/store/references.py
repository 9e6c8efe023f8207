"""Numbers for series: small, so that they index arrays, and used again when a series has left memory."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from trilens.store.arrays import grown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Codes
    from trilens.model.series import Handles

_GONE = -1


class References:
    """Not thread-safe: taken and retired under the store's lock.

    A query keeps references only as long as it holds the index state it found them in, so a reference waits
    until that state and all before it are gone. Collectors keep theirs for as long as they like. What they
    get is a handle: the reference with the number of times it was used before in the upper half. A handle is
    never given out twice.
    """

    def __init__(self) -> None:
        self._handles: Handles = np.full(1024, _GONE, dtype=np.int64)  # of the living
        self._uses = np.zeros(1024, dtype=np.int64)
        self._free = np.zeros(0, dtype=np.int32)  # ascending
        self._waiting: list[tuple[weakref.ref[object], Codes]] = []  # in the order in which they retired
        self.count = 0  # references are below this

    def take(self, count: int) -> Codes:
        """In ascending order: a scrape whose references ascend is the cheapest to append."""
        if len(self._free) < count and self._waiting:
            self._reclaim()
        reused, self._free = self._free[:count], self._free[count:]
        fresh = np.arange(self.count, self.count + count - len(reused), dtype=np.int32)
        self._grow(len(fresh))
        refs = np.concatenate([reused, fresh])
        self._handles[refs] = (self._uses[refs] << 32) | refs
        self._uses[refs] += 1
        return refs

    def take_one(self) -> int:
        """The same for a single series: new ones come one at a time, and thousands in a scrape."""
        if len(self._free) == 0 and self._waiting:
            self._reclaim()
        if len(self._free):
            ref = int(self._free[0])
            self._free = self._free[1:]
        else:
            ref = self.count
            self._grow(1)
        self._handles[ref] = (int(self._uses[ref]) << 32) | ref
        self._uses[ref] += 1
        return ref

    def retire(self, refs: Codes, readers: object) -> None:
        """These series are gone; who found them before holds `readers`, or what preceded it."""
        self._handles[refs] = _GONE
        self._waiting.append((weakref.ref(readers), refs))

    def living(self) -> Codes:
        return np.flatnonzero(self._handles[: self.count] != _GONE).astype(np.int32)

    def handle(self, ref: int) -> int:
        return int(self._handles[ref])

    def handles(self, refs: Codes) -> Handles:
        return self._handles[refs]

    def of(self, handles: Handles) -> Codes:
        """The references of handles, dead ones included."""
        return handles.astype(np.int32)  # the lower half

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        """Which handles are of series that are still there."""
        held: NDArray[np.bool_] = self._handles[self.of(handles)] == handles
        return held

    def _grow(self, count: int) -> None:
        self.count += count
        if self.count > len(self._uses):
            size = max(self.count, 2 * len(self._uses))
            self._handles = grown(self._handles, size, _GONE)
            self._uses = grown(self._uses, size)

    def _reclaim(self) -> None:
        released: list[Codes] = []
        while self._waiting and self._waiting[0][0]() is None:
            released.append(self._waiting.pop(0)[1])
        self._free = np.sort(np.concatenate([self._free, *released]))
