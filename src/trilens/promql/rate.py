"""rate, increase, delta and their instant kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.promql.windows import row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.series import Floats, SampleBlock, Times
    from trilens.promql.vector import Bools
    from trilens.promql.windows import Windows


def rate(w: Windows) -> tuple[Floats, Bools]:
    return _extrapolated(w, counter=True, per_second=True)


def increase(w: Windows) -> tuple[Floats, Bools]:
    return _extrapolated(w, counter=True, per_second=False)


def delta(w: Windows) -> tuple[Floats, Bools]:
    return _extrapolated(w, counter=False, per_second=False)


def instant_rate(w: Windows) -> tuple[Floats, Bools]:
    return _last_two(w, counter=True)


def instant_delta(w: Windows) -> tuple[Floats, Bools]:
    return _last_two(w, counter=False)


def _extrapolated(w: Windows, *, counter: bool, per_second: bool) -> tuple[Floats, Bools]:
    """The change between the first and the last sample, stretched towards the ends of the window."""
    last = w.hi - 1
    present = last > w.lo
    if not present.any():
        return np.zeros(w.lo.shape), present
    first = w.lo
    if not present.all():  # an index that exists, for windows whose answer is not used
        first, last = np.where(present, first, 0), np.where(present, last, 0)
    v = w.block.v
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        result = v[last] - v[first]
        if counter:
            _add_resets(w.block, first, last, result)
        t, v = w.block.t, w.block.v
        for rows in row_blocks(result.shape):
            head, tail = first[rows], last[rows]
            stretch(result[rows], Ends(t[head], t[tail], v[head], tail - head), w.ends, w.range_ms, counter)
        if per_second:
            result /= w.range_ms / 1000.0
    return result, present


class Ends(NamedTuple):
    """The first and the last sample of every window, and how many intervals lie between them."""

    t_first: Times
    t_last: Times
    v_first: Floats
    intervals: NDArray[np.int64]


def stretch(result: Floats, of: Ends, until: Times, range_ms: int, counter: bool) -> None:
    """From the samples to the ends of the window, in place.

    To the very end where a sample lies near it (within 1.1 mean intervals), else by half an interval; a
    counter never to before the time it would have been zero.
    """
    sampled = (of.t_last - of.t_first) / 1000.0
    interval = sampled / of.intervals
    near = interval * 1.1
    interval *= 0.5
    to_start = (of.t_first - (until - range_ms)) / 1000.0
    to_start = np.where(to_start >= near, interval, to_start)
    if counter:
        to_zero = sampled * (of.v_first / result)
        limited = (result > 0) & (of.v_first >= 0) & (to_zero < to_start)
        to_start = np.where(limited, to_zero, to_start)
    to_end = (until - of.t_last) / 1000.0
    to_end = np.where(to_end >= near, interval, to_end)
    result *= (sampled + to_start + to_end) / sampled


def _add_resets(
    block: SampleBlock, first: NDArray[np.int64], last: NDArray[np.int64], result: Floats
) -> None:
    """A counter that falls started again from zero: what it had reached before is added.

    The resets alone are summed, for the windows that have one: differences of a running sum over everything
    would leave rounding noise in windows where nothing happened.
    """
    v, offsets = block.v, block.offsets
    falls = v[1:] < v[:-1]
    starts = offsets[1:-1]
    falls[starts[(starts > 0) & (starts < len(v))] - 1] = False  # from one series to the next
    before = np.flatnonzero(falls)  # the last sample before each reset
    if not len(before):
        return
    rows = np.unique(np.searchsorted(offsets, before, side="right") - 1)
    lo = np.searchsorted(before, first[rows])
    hi = np.searchsorted(before, last[rows])
    row, step = np.nonzero(hi > lo)
    at, end = lo[row, step], hi[row, step]
    cells = (rows[row], step)
    while len(at):  # one reset of every window after the other: Prometheus adds them in that order
        result[cells] += v[before[at]]
        at = at + 1
        more = at < end
        at, end, cells = at[more], end[more], (cells[0][more], cells[1][more])


def _last_two(w: Windows, *, counter: bool) -> tuple[Floats, Bools]:
    present = w.counts >= 2
    if not present.any():
        return np.zeros(w.lo.shape), present
    t, v = w.block.t, w.block.v
    last = np.where(present, w.hi - 1, 1)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        result = v[last] - v[last - 1]
        if counter:
            result = np.where(v[last] < v[last - 1], v[last], result)
            result = result / ((t[last] - t[last - 1]) / 1000.0)
    return result, present
