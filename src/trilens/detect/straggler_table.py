"""Stragglers in a table of how long each worker took: all of it is there, so what comes later tells, too.

The same measure as D003's (`peers.py`), but what is usual for a worker is not learnt from its beginning: it
is its fast side over the whole table, so one that is slow from early on until the end is found as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.peers import IN_A_ROW, STRIDE, WINDOW, is_over, limit, reference, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.detect.peers import Floats

LEAST_ROWS: Final = 4 * WINDOW  # of a worker: with fewer nothing is usual

_FAST_SIDE: Final = 0.08  # quantile of windows
_BELOW_MIDDLE: Final = 1.75  # wobbles: where that quantile lies, of what wanders as errors do
_TO_WOBBLE: Final = 0.84  # from the median difference of two to the mean distance from the middle: 0.8 / 0.95
_ROUNDS: Final = 4  # of working out what is common to all, and what is one's own
_FEWEST: Final = 3  # rows in a window


class Spell(NamedTuple):
    """A time in which a worker was slow. `first` and `last` are rows of the table."""

    worker: int
    first: int
    last: int
    slowdown: float


def slow_spells(workers: NDArray[np.intp], when: Floats, took: Floats) -> list[Spell]:
    """One row each; workers are numbered from 0, `when` is a step or a time, `took` in any unit."""
    count = int(workers.max()) + 1
    medians, of_row = _windows(workers, when, took, count)
    apart = WINDOW // STRIDE
    if medians.shape[1] <= 2 * apart:
        return []
    usual, common = _apart(medians)
    excess = medians / (usual[:, None] * common) - 1
    # Differences of windows that share no row: a level that changes once does not count as wandering.
    wobble = _TO_WOBBLE * np.nan_to_num(_median(np.abs(excess[:, apart:] - excess[:, :-apart])))
    excess -= _BELOW_MIDDLE * wobble[:, None]
    usual *= 1 + _BELOW_MIDDLE * wobble
    is_high = excess >= limit(wobble)[:, None]
    is_calm = is_over(excess, wobble[:, None])
    spells: list[Spell] = []
    for worker in np.flatnonzero(is_high.any(axis=1)).tolist():
        rows = np.flatnonzero(workers == worker)
        rows = rows[np.argsort(when[rows], kind="stable")]
        ratios = took[rows] / (usual[worker] * common[of_row[rows]])
        for first, last in _runs(is_high[worker], is_calm[worker]):
            by = float(np.nanmedian(excess[worker, first : last + 1]))
            near = np.flatnonzero((of_row[rows] >= first - 1) & (of_row[rows] <= last + apart))
            begin, end = span(ratios[near], by)
            slow = ratios[near[begin : end + 1]]
            spells.append(Spell(worker, int(rows[near[begin]]), int(rows[near[end]]), float(np.median(slow))))
    return sorted(spells, key=lambda spell: (when[spell.first], spell.worker))


def _windows(
    workers: NDArray[np.intp], when: Floats, took: Floats, count: int
) -> tuple[Floats, NDArray[np.intp]]:
    """The median of each worker in each window, and the half window in which each row lies. Windows are cut
    by when, so that rows of one window are of one time; each holds WINDOW rows of most workers."""
    in_order = np.sort(when)
    edges = np.unique(in_order[:: STRIDE * count])
    half = np.searchsorted(edges, when, side="right") - 1
    windows = max(len(edges) - 1, 1)
    medians = np.full((count, windows), np.nan)
    by_half = np.argsort(half, kind="stable")
    first_of = np.searchsorted(half[by_half], np.arange(windows + 2))
    for at in range(windows):
        inside = by_half[first_of[at] : first_of[at + 2]]
        of, values = workers[inside], took[inside]
        order = np.lexsort((values, of))
        of, values = of[order], values[order]
        first, rows = np.searchsorted(of, np.arange(count)), np.bincount(of, minlength=count)
        has = rows >= _FEWEST
        low, high = first + (rows - 1) // 2, first + rows // 2
        medians[has, at] = (values[low[has]] + values[high[has]]) / 2
    return medians, np.minimum(half, windows - 1).astype(np.intp)


def _apart(medians: Floats) -> tuple[Floats, Floats]:
    """What is usual for each worker, and how much longer all of them take in each window."""
    count, windows = medians.shape
    usual = _median(medians)
    common = np.ones(windows)
    group = np.tile(np.arange(windows), count)
    for _ in range(_ROUNDS):
        common = reference((medians / usual[:, None]).ravel(), group, windows)
        usual = _fast_side(medians / common)
    return usual, np.where(np.isnan(common), 1.0, common)


def _fast_side(levels: Floats) -> Floats:
    known = (~np.isnan(levels)).sum(axis=1)
    in_order = np.sort(levels, axis=1)  # NaN last
    at = (_FAST_SIDE * np.maximum(known - 1, 0)).astype(np.intp)
    found: Floats = in_order[np.arange(len(levels)), at]
    return found


def _median(values: Floats) -> Floats:
    """Of what each row knows; NaN where it is nothing."""
    known = (~np.isnan(values)).sum(axis=1)
    in_order, rows = np.sort(values, axis=1), np.arange(len(values))  # NaN last
    found: Floats = (in_order[rows, np.maximum(known - 1, 0) // 2] + in_order[rows, known // 2]) / 2
    return found


def _runs(is_high: NDArray[np.bool_], is_calm: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Stretches without a calm window and with IN_A_ROW slow ones: from the first of these to the last."""
    for run in np.split(np.arange(len(is_high)), np.flatnonzero(is_calm)):
        slow = run[is_high[run]]
        if len(slow) >= IN_A_ROW:
            yield int(slow[0]), int(slow[-1])
