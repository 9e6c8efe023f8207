"""Chunks: 16 samples of one series each, in a pool whose size is a memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Codes
    from trilens.model.series import Floats, Times

# The chunk that a series writes to is half empty on average: with 32 that was half of a budget for minutes,
# and what rules look back at was not in it at times. With 16 a sample takes 7 % more.
CHUNK: Final = 16
SPAN_MS: Final = 1 << 32  # offsets inside a chunk are 32-bit: 49 days
CHUNK_BYTES: Final = CHUNK * (8 + 4) + 8 + 8 + 1 + 3 * 4


class ChunkPool:
    """Not thread-safe: the window holds its lock. The chunks of a series are linked both ways."""

    def __init__(self, budget_bytes: int) -> None:
        self.size = max(64, budget_bytes // CHUNK_BYTES)
        # Pages of these arrays cost memory only once they are written.
        self.values = np.empty((self.size, CHUNK), dtype=np.float64)
        self.offsets = np.empty((self.size, CHUNK), dtype=np.uint32)
        self.first = np.zeros(self.size, dtype=np.int64)  # time of a chunk's first sample
        self.last = np.zeros(self.size, dtype=np.int64)  # and of its last
        self.used = np.zeros(self.size, dtype=np.uint8)  # 0: the chunk is free
        self.older = np.zeros(self.size, dtype=np.int32)  # the series' chunk before this one
        self.newer = np.zeros(self.size, dtype=np.int32)
        self._free = np.arange(self.size - 1, -1, -1, dtype=np.int32)  # a stack, lowest number on top
        self.free_count = self.size

    def take(self, count: int) -> Codes:
        self.free_count -= count
        return self._free[self.free_count : self.free_count + count].copy()

    def give_back(self, chunks: Codes) -> None:
        self.used[chunks] = 0
        self._free[self.free_count : self.free_count + len(chunks)] = chunks
        self.free_count += len(chunks)

    def write(self, chunk: Codes, column: NDArray[np.int64], t: Times, v: Floats) -> None:
        """Samples into their places, in order of time within each chunk, whose `first` is set."""
        self.values[chunk, column] = v
        self.offsets[chunk, column] = (t - self.first[chunk]).astype(np.uint32)
        self.used[chunk] = column + 1  # assigned in order: the last sample of a chunk decides
        self.last[chunk] = t

    def link(self, older: Codes, newer: Codes) -> None:
        """`older[i]` and `newer[i]` are neighbours."""
        self.newer[older] = newer
        self.older[newer] = older
