"""Sums over many windows or groups, fast and as exact as Prometheus's compensated ones.

Prometheus adds with Neumaier's compensation, one sample at a time. Here a plain sum comes first; only where
large terms cancel, so that its rounding would show, is it done again with compensation, for all such windows
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.model.series import Floats
    from trilens.promql.vector import Bools

# 64 bits of mantissa where the processor has them: a sum comes out rounded once, as a compensated one does.
_WIDE: Final = np.longdouble if np.finfo(np.longdouble).nmant == 63 else np.float64
_EXACT: Final = 2.0**53  # whole numbers below this add up without any rounding
_NARROW: Final = 4  # samples of a window, up to which they are added one by one, all windows together
_CANCELLED: Final = 1e-3  # a sum below this share of its terms' size may have lost digits that count


def reduce_windows(
    op: np.ufunc, v: Floats, lo: NDArray[Any], hi: NDArray[Any], dtype: type[np.floating[Any]] = np.float64
) -> Floats:
    """`op` over v[lo:hi] for every window; NaN where the window is empty. `op` must be associative."""
    shape = lo.shape
    lo, hi = lo.reshape(-1), hi.reshape(-1)
    width = int((hi - lo).max(initial=0))
    if width == 0:
        return np.full(shape, np.nan)
    if width == 1:
        return np.where(hi > lo, v[np.minimum(lo, len(v) - 1)], np.nan).reshape(shape)
    levels = width.bit_length()
    overlap = int((hi - lo).sum())
    # Doubling touches every sample once a level; reduceat touches it once for each window it lies in.
    if overlap <= 2 * levels * len(v) or levels <= 2:
        result = _reduce_each(op, v.astype(dtype, copy=False), lo, hi)
    else:
        result = _reduce_doubling(op, v, lo, hi, levels, dtype)
    return result.astype(np.float64, copy=False).reshape(shape)


def _reduce_each(op: np.ufunc, v: NDArray[Any], lo: NDArray[Any], hi: NDArray[Any]) -> NDArray[Any]:
    bounds = np.empty(2 * len(lo), dtype=np.intp)
    bounds[0::2] = lo
    bounds[1::2] = hi
    reduced = op.reduceat(np.append(v, v.dtype.type(np.nan)), bounds)[0::2].astype(np.float64)
    return np.where(hi > lo, reduced, np.nan)


def _reduce_doubling(
    op: np.ufunc, v: Floats, lo: NDArray[Any], hi: NDArray[Any], levels: int, dtype: Any
) -> NDArray[Any]:
    """Each window is a run of blocks of 1, 2, 4, ... samples, and blocks are made of two halves."""
    length = hi - lo
    at = lo.copy()
    result = np.full(len(lo), np.nan, dtype=dtype)
    started = np.zeros(len(lo), dtype=bool)
    block = v
    for level in range(levels):
        size = 1 << level
        takes = (length & size) != 0
        part = block[at[takes]]
        result[takes] = np.where(started[takes], op(result[takes], part), part)
        started |= takes
        at[takes] += size
        if level + 1 < levels:
            block = op(block[:-size], block[size:])
    return result


def sum_windows(v: Floats, lo: NDArray[Any], hi: NDArray[Any]) -> Floats:
    width = int((hi - lo).max(initial=0))
    if width <= _NARROW:
        return _sum_narrow(v, lo, hi, width)
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = np.min(v), np.max(v)
        exact = max(-low, high) * width < _EXACT and bool((v == np.rint(v)).all())
        total = reduce_windows(np.add, v, lo, hi, np.float64 if exact else _WIDE)
        if not (exact or low >= 0 or high <= 0):
            size = reduce_windows(np.add, np.abs(v), lo, hi)
            doubtful = np.abs(total) < size * _CANCELLED
            if doubtful.any():
                total[doubtful] = _compensated(v, lo[doubtful], hi[doubtful])
    return total


def _sum_narrow(v: Floats, lo: NDArray[Any], hi: NDArray[Any], width: int) -> Floats:
    """The first sample of every window, then the second, ... as Prometheus adds them."""
    if width == 0:
        return np.full(lo.shape, np.nan)
    last = len(v) - 1
    total: Floats = v[np.minimum(lo, last)]
    total[lo == hi] = np.nan
    if width > 1:
        lost = np.zeros(lo.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            for j in range(1, width):
                add_compensated(total, lost, np.where(lo + j < hi, v[np.minimum(lo + j, last)], 0.0), ...)
        total += lost
    return total


def mean_windows(v: Floats, lo: NDArray[Any], hi: NDArray[Any]) -> Floats:
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        count = hi - lo
        mean = sum_windows(v, lo, hi) / count
        overflown = np.isinf(mean)
        if overflown.any():
            mean[overflown] = _scaled_mean(v, lo[overflown], hi[overflown])
    return np.asarray(mean)


def _compensated(v: Floats, lo: NDArray[Any], hi: NDArray[Any]) -> Floats:
    total = np.zeros(len(lo))
    lost = np.zeros(len(lo))
    for active, x in _columns(v, lo, hi):
        add_compensated(total, lost, x, active)
    return total + lost


def _scaled_mean(v: Floats, lo: NDArray[Any], hi: NDArray[Any]) -> Floats:
    """The mean of numbers so large that their sum is not finite; a true infinity stays one."""
    total = np.zeros(len(lo))
    lost = np.zeros(len(lo))
    count = hi - lo
    for active, x in _columns(v, lo, hi):
        add_compensated(total, lost, x / count[active], active)
    return total + lost


def _columns(v: Floats, lo: NDArray[Any], hi: NDArray[Any]) -> Iterator[tuple[NDArray[Any], Floats]]:
    """The first sample of every window, then the second, ... with the windows that have one."""
    for j in range(int((hi - lo).max(initial=0))):
        active = np.flatnonzero(lo + j < hi)
        yield active, v[lo[active] + j]


def add_compensated(total: Floats, lost: Floats, x: Floats, at: Any) -> None:
    """One step of Neumaier's summation, in place, for the entries `at`."""
    t = total[at]
    s = t + x
    error = np.where(np.abs(t) >= np.abs(x), (t - s) + x, (x - s) + t)
    lost[at] = np.where(np.isinf(s), 0.0, lost[at] + error)
    total[at] = s


def sum_rows(values: Floats, present: Bools | None, starts: NDArray[Any]) -> Floats:
    """The sum of the rows of each group at every step; a group's rows lie together, from `starts` on."""
    with np.errstate(invalid="ignore", over="ignore"):
        v = values if present is None else np.where(present, values, 0.0)
        if len(starts) == len(v):
            return v
        total: Floats = v.sum(axis=0)[None, :] if len(starts) == 1 else np.add.reduceat(v, starts, axis=0)
        if v.size and not (np.min(v) >= 0 or np.max(v) <= 0):
            size = np.add.reduceat(np.abs(v), starts, axis=0)
            doubtful = (np.abs(total) < size * _CANCELLED).any(axis=1)
            if doubtful.any():
                _compensate_rows(v, starts, np.flatnonzero(doubtful), total)
    return total


def _compensate_rows(v: Floats, starts: NDArray[Any], groups: NDArray[Any], total: Floats) -> None:
    ends = np.append(starts[1:], len(v))
    sizes = ends[groups] - starts[groups]
    exact = np.zeros((len(groups), v.shape[1]))
    lost = np.zeros_like(exact)
    for j in range(int(sizes.max())):
        active = np.flatnonzero(j < sizes)
        add_compensated(exact, lost, v[starts[groups[active]] + j], active)
    total[groups] = exact + lost
