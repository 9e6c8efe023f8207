"""Which samples lie in each series' window at each step, found for all series and steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.series import SampleBlock, stale_mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.model.series import Floats, Times
    from trilens.promql.vector import Bools, Grid

_CACHED: Final = 1 << 14  # numbers of a block that is worked on while it lies in the processor's cache


@dataclass(frozen=True, slots=True)
class Padded:
    """Windows written out, one a row, padded to the longest; `inside` tells samples from padding."""

    where: slice  # of the flattened windows
    values: Floats
    inside: Bools
    counts: NDArray[np.int64]
    block: SampleBlock
    at: NDArray[np.int64]  # where in the block each value lies

    @property
    def times(self) -> Times:
        return self.block.t[self.at]


@dataclass(frozen=True, slots=True)
class Windows:
    """Series i's window at step k holds the samples `lo[i, k]` to `hi[i, k]` (exclusive) of `block`.

    A window reaches from `ends[k] - range_ms` (not included) to `ends[k]` (included).
    """

    block: SampleBlock
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    ends: Times
    range_ms: int

    @property
    def counts(self) -> NDArray[np.int64]:
        return self.hi - self.lo

    def padded(self) -> Iterator[Padded]:
        """The windows in pieces of bounded size, for functions that look at all samples of a window."""
        lo, counts = self.lo.reshape(-1), self.counts.reshape(-1)
        width = int(counts.max(initial=0))
        if width == 0:
            return
        offsets = np.arange(width)
        last = len(self.block.t) - 1
        for where in row_blocks((len(lo), width)):
            inside = offsets < counts[where, None]
            at = np.minimum(lo[where, None] + offsets, last)
            yield Padded(where, self.block.v[at], inside, counts[where], self.block, at)


def windows(block: SampleBlock, grid: Grid, range_ms: int) -> Windows:
    """`block` must be free of staleness markers: they end a series and are no samples of it."""
    ahead, odd = divmod(range_ms, grid.step) if grid.count > 1 else (0, 1)
    if odd == 0 and ahead <= grid.count:
        # The windows' starts lie on the steps too: one count serves both ends.
        bounds = _counts_until(block, grid.start - range_ms, grid.step, grid.count + ahead)
        lo, hi = bounds[:, : grid.count], bounds[:, ahead:]
    else:
        lo = _counts_until(block, grid.start - range_ms, grid.step, grid.count)
        hi = _counts_until(block, grid.start, grid.step, grid.count)
    return Windows(block, lo, hi, grid.times, range_ms)


def latest(block: SampleBlock, grid: Grid, lookback_ms: int) -> tuple[NDArray[np.int64], Bools]:
    """The index of each series' last sample at each step, and whether there is one that still counts."""
    hi = _counts_until(block, grid.start, grid.step, grid.count)
    at = hi - 1
    present = hi > block.offsets[:-1, None]
    np.maximum(at, 0, out=at)
    if len(block.t):
        present &= block.t[at] > grid.times - lookback_ms
        if stale_mask(block.v).any():
            present &= ~stale_mask(block.v[at])
    return at, present


def without_stale(block: SampleBlock) -> SampleBlock:
    stale = stale_mask(block.v)
    if not stale.any():
        return block
    kept = ~stale
    before = np.concatenate(([0], np.cumsum(kept)))
    return SampleBlock(block.t[kept], block.v[kept], before[block.offsets])


def as_block(values: Floats, present: Bools | None, times: Times) -> SampleBlock:
    """A matrix of steps seen as samples: what a subquery hands to a range function."""
    rows, steps = values.shape
    if present is None:
        offsets = np.arange(rows + 1, dtype=np.int64) * steps
        return SampleBlock(np.tile(times, rows), np.ascontiguousarray(values).reshape(-1), offsets)
    offsets = np.concatenate(([0], np.cumsum(np.count_nonzero(present, axis=1)))).astype(np.int64)
    return SampleBlock(np.broadcast_to(times, present.shape)[present], values[present], offsets)


def _counts_until(block: SampleBlock, start: int, step: int, count: int) -> NDArray[np.int64]:
    """For each series and each time start + k * step: where in the block its samples after that time begin.

    Samples are dropped into the step that sees them first and counted, then summed along the steps: linear
    in samples and results, where a binary search for each result would be slower by its logarithm.
    """
    t, offsets = block.t, block.offsets
    series = len(offsets) - 1
    if count == 1:
        until = np.concatenate(([0], np.cumsum(t <= start)))
        return (offsets[:-1] + until[offsets[1:]] - until[offsets[:-1]])[:, None]
    first = t - (start - step + 1)
    first //= step
    np.clip(first, 0, count, out=first)
    first += np.repeat(np.arange(series) * (count + 1), np.diff(offsets))
    seen = np.bincount(first, minlength=series * (count + 1)).reshape(series, count + 1)
    seen[:, 0] += offsets[:-1]
    return np.cumsum(seen[:, :count], axis=1)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Rows in blocks that fit the processor's cache: intermediate results are made and used there."""
    rows, columns = shape
    size = max(1, _CACHED // max(1, columns))
    for start in range(0, rows, size):
        yield slice(start, start + size)
