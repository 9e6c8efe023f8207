"""Functions of a range vector that look at the samples' values: sums, extremes, quantiles, changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trilens.promql.summation import mean_windows, reduce_windows, sum_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.series import Floats
    from trilens.promql.vector import Bools
    from trilens.promql.windows import Padded, Windows


def any_sample(w: Windows) -> Bools:
    return w.hi > w.lo


def _gather(v: NDArray[Any], at: NDArray[np.int64]) -> NDArray[Any]:
    """Values at positions that may lie outside where the window is empty."""
    return v[np.clip(at, 0, len(v) - 1)] if len(v) else np.zeros(at.shape)


def first(w: Windows) -> tuple[Floats, Bools]:
    return _gather(w.block.v, w.lo), any_sample(w)


def last(w: Windows) -> tuple[Floats, Bools]:
    return _gather(w.block.v, w.hi - 1), any_sample(w)


def time_of_first(w: Windows) -> tuple[Floats, Bools]:
    return _gather(w.block.t, w.lo) / 1000.0, any_sample(w)


def time_of_last(w: Windows) -> tuple[Floats, Bools]:
    return _gather(w.block.t, w.hi - 1) / 1000.0, any_sample(w)


def count(w: Windows) -> tuple[Floats, Bools]:
    return w.counts.astype(np.float64), any_sample(w)


def present(w: Windows) -> tuple[Floats, Bools]:
    return np.ones(w.lo.shape), any_sample(w)


def total(w: Windows) -> tuple[Floats, Bools]:
    return sum_windows(w.block.v, w.lo, w.hi), any_sample(w)


def mean(w: Windows) -> tuple[Floats, Bools]:
    return mean_windows(w.block.v, w.lo, w.hi), any_sample(w)


def smallest(w: Windows) -> tuple[Floats, Bools]:
    return reduce_windows(np.fmin, w.block.v, w.lo, w.hi), any_sample(w)


def largest(w: Windows) -> tuple[Floats, Bools]:
    return reduce_windows(np.fmax, w.block.v, w.lo, w.hi), any_sample(w)


def _count_steps(w: Windows, differs: Bools) -> tuple[Floats, Bools]:
    """How many samples of each window `differ` from the one before them in the window."""
    until = np.concatenate(([0], np.cumsum(differs)))
    inner = np.minimum(w.lo + 1, w.hi)
    steps = until[w.hi] - until[inner]
    return steps.astype(np.float64), any_sample(w)


def changes(w: Windows) -> tuple[Floats, Bools]:
    v = w.block.v
    differs = np.zeros(len(v), dtype=bool)
    differs[1:] = (v[1:] != v[:-1]) & ~(np.isnan(v[1:]) & np.isnan(v[:-1]))
    return _count_steps(w, differs)


def resets(w: Windows) -> tuple[Floats, Bools]:
    v = w.block.v
    differs = np.zeros(len(v), dtype=bool)
    differs[1:] = v[1:] < v[:-1]
    return _count_steps(w, differs)


def _each_window(w: Windows, compute: Callable[[Padded], Floats]) -> tuple[Floats, Bools]:
    result = np.full(w.lo.size, np.nan)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for piece in w.padded():
            result[piece.where] = compute(piece)
    return result.reshape(w.lo.shape), any_sample(w)


def _variance(piece: Padded) -> Floats:
    """Squared distance from the mean: two passes, which lose fewer digits than a running formula."""
    values = np.where(piece.inside, piece.values, 0.0)
    middle = values.sum(axis=1) / piece.counts
    distance = np.where(piece.inside, piece.values - middle[:, None], 0.0)
    # The mean's own rounding leaves a small common distance; taking it out makes equal samples give 0.
    drift = distance.sum(axis=1) / piece.counts
    distance = np.where(piece.inside, distance - drift[:, None], 0.0)
    return np.asarray((distance * distance).sum(axis=1) / piece.counts)


def variance(w: Windows) -> tuple[Floats, Bools]:
    return _each_window(w, _variance)


def deviation(w: Windows) -> tuple[Floats, Bools]:
    values, there = variance(w)
    return np.sqrt(values), there


def sorted_quantile(q: Floats, ascending: Floats, counts: NDArray[Any], nans: NDArray[Any]) -> Floats:
    """Quantile of rows sorted with NaN at the end; Prometheus takes NaN for the smallest of all values."""
    rank = q * (counts - 1)
    below = np.clip(np.nan_to_num(np.floor(rank)), 0, np.maximum(counts - 1, 0)).astype(np.intp)
    above = np.minimum(counts - 1, below + 1)
    weight = rank - np.floor(rank)
    rows = np.arange(len(ascending))

    def at(index: NDArray[Any]) -> Floats:
        picked = ascending[rows, np.clip(index - nans, 0, None)]
        return np.where(index < nans, np.nan, picked)

    value = at(below) * (1 - weight) + at(above) * weight
    value = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, value))
    return np.where(np.isnan(q) | (counts == 0), np.nan, value)


def _sorted(piece: Padded) -> tuple[Floats, NDArray[Any]]:
    values = np.where(piece.inside, piece.values, np.nan)
    nans = np.count_nonzero(np.isnan(values) & piece.inside, axis=1)
    return np.sort(values, axis=1), nans


def quantile(w: Windows, q: Floats) -> tuple[Floats, Bools]:
    wanted = np.broadcast_to(q, w.lo.shape).reshape(-1)

    def compute(piece: Padded) -> Floats:
        ascending, nans = _sorted(piece)
        return sorted_quantile(wanted[piece.where], ascending, piece.counts, nans)

    return _each_window(w, compute)


def median_deviation(w: Windows) -> tuple[Floats, Bools]:
    def compute(piece: Padded) -> Floats:
        half = np.full(len(piece.counts), 0.5)
        ascending, nans = _sorted(piece)
        middle = sorted_quantile(half, ascending, piece.counts, nans)
        distance = replace(piece, values=np.abs(piece.values - middle[:, None]))
        ascending, other_nans = _sorted(distance)
        result = sorted_quantile(half, ascending, piece.counts, other_nans)
        return np.where(nans > 0, np.nan, result)

    return _each_window(w, compute)


def _time_of_extreme(w: Windows, sign: int) -> tuple[Floats, Bools]:
    def compute(piece: Padded) -> Floats:
        score = np.where(piece.inside & ~np.isnan(piece.values), sign * piece.values, -np.inf)
        # Of equal extremes the latest counts, so look from the end.
        best = score.shape[1] - 1 - np.argmax(score[:, ::-1], axis=1)
        best = np.where((score == -np.inf).all(axis=1), _last_worst(piece, sign), best)
        return piece.times[np.arange(len(best)), best] / 1000.0

    return _each_window(w, compute)


def _last_worst(piece: Padded, sign: int) -> NDArray[Any]:
    """Where nothing is better than infinitely bad: the latest infinity, or of NaN alone the latest NaN."""
    worst = piece.inside & (piece.values == -sign * np.inf)
    latest = worst.shape[1] - 1 - np.argmax(worst[:, ::-1], axis=1)
    return np.where(worst.any(axis=1), latest, np.maximum(piece.counts - 1, 0))


def time_of_largest(w: Windows) -> tuple[Floats, Bools]:
    return _time_of_extreme(w, 1)


def time_of_smallest(w: Windows) -> tuple[Floats, Bools]:
    return _time_of_extreme(w, -1)


def regression(piece: Padded, zero: Floats) -> tuple[Floats, Floats]:
    """Least-squares slope per second and value at the time `zero` (milliseconds) for each window."""
    inside, values = piece.inside, piece.values
    x = np.where(inside, (piece.times - zero[:, None]) / 1000.0, 0.0)
    mid_x = x.sum(axis=1) / piece.counts
    mid_y = np.where(inside, values, 0.0).sum(axis=1) / piece.counts
    # Distances from the middle: sums of the plain products would cancel where the values are large.
    dx = np.where(inside, x - mid_x[:, None], 0.0)
    dy = np.where(inside, values - mid_y[:, None], 0.0)
    slope = (dx * dy).sum(axis=1) / (dx * dx).sum(axis=1)
    value = mid_y - slope * mid_x
    begin = values[:, 0]
    flat = np.where(inside, values == begin[:, None], True).all(axis=1)
    slope = np.where(flat, np.where(np.isinf(begin), np.nan, 0.0), slope)
    return slope, np.where(flat, np.where(np.isinf(begin), np.nan, begin), value)


def slope(w: Windows) -> tuple[Floats, Bools]:
    values, _ = _each_window(w, lambda piece: regression(piece, piece.times[:, 0].astype(np.float64))[0])
    return values, w.counts >= 2


def predict(w: Windows, ahead_s: Floats, now_ms: Floats) -> tuple[Floats, Bools]:
    """The regression line's value `ahead_s` after each step. `@` may fix the windows, but not the step."""
    rows, steps = w.lo.shape[0], len(now_ms)
    fixed = w.lo.shape[1] == 1 and steps > 1
    zero = np.broadcast_to(w.ends if fixed else now_ms, w.lo.shape).reshape(-1).astype(np.float64)
    slopes, values = np.full(w.lo.size, np.nan), np.full(w.lo.size, np.nan)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for piece in w.padded():
            slopes[piece.where], values[piece.where] = regression(piece, zero[piece.where])
        late = (now_ms - w.ends) / 1000.0 if fixed else 0.0
        result = slopes.reshape(w.lo.shape) * (ahead_s + late) + values.reshape(w.lo.shape)
    there = np.broadcast_to(w.counts >= 2, (rows, steps))
    return np.broadcast_to(result, (rows, steps)), there


def smooth(w: Windows, level_factor: Floats, trend_factor: Floats) -> tuple[Floats, Bools]:
    """Double exponential smoothing: level and trend, sample after sample, for all windows together."""
    level_of = np.broadcast_to(level_factor, w.lo.shape).reshape(-1)
    trend_of = np.broadcast_to(trend_factor, w.lo.shape).reshape(-1)

    def compute(piece: Padded) -> Floats:
        sf, tf = level_of[piece.where], trend_of[piece.where]
        v = piece.values
        before = level = v[:, 0]
        if v.shape[1] < 2:
            return level
        trend = v[:, 1] - v[:, 0]
        for j in range(1, v.shape[1]):
            inside = piece.inside[:, j]
            if j > 1:
                trend = np.where(inside, tf * (level - before) + (1 - tf) * trend, trend)
            smoothed = sf * v[:, j] + (1 - sf) * (level + trend)
            before, level = np.where(inside, level, before), np.where(inside, smoothed, level)
        return level

    values, _ = _each_window(w, compute)
    return values, w.counts >= 2
