"""Classic histograms: quantiles and fractions from series of cumulative buckets, told apart by `le`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.labels import METRIC_NAME, LabelFrame
from trilens.promql.format import open_metrics_number
from trilens.promql.vector import Bools, Vector, merge_equal, stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.model.series import Floats
    from trilens.promql.annotations import Annotations

_NOISE: Final = 1e-12  # two counts this near are the same count, rounded differently


@dataclass(frozen=True, slots=True)
class Buckets:
    """Histograms with their buckets side by side: `counts[b]` and `present[b]` are (histograms, steps).

    `bounds[b]` holds each histogram's b-th upper bound, ascending; NaN where it has fewer buckets.
    """

    labels: LabelFrame
    bounds: Floats
    counts: Floats
    present: Bools
    drop_name: Bools

    def __iter__(self) -> Iterator[tuple[Floats, Floats, Bools]]:
        for b in range(len(self.bounds)):
            yield self.bounds[b][:, None], self.counts[b], self.present[b]

    @property
    def any_present(self) -> Bools:
        return np.asarray(self.present.any(axis=0))

    def metric(self, row: int) -> str:
        return self.labels.symbols.text(int(self.labels.column(METRIC_NAME)[row]))


def collect(vector: Vector, notes: Annotations, pos: int) -> Buckets | None:
    """Put the series with a readable `le` together into histograms; None where there is none."""
    le = vector.labels.column("le")
    codes, which = np.unique(le, return_inverse=True)
    bound_of = np.array([_bound(vector.labels.symbols.text(c)) for c in codes.tolist()], dtype=np.float64)
    bounds = bound_of[which.reshape(-1)] if len(codes) else np.zeros(0)
    some = vector.some_present
    metric = vector.labels.column(METRIC_NAME)
    for row in np.flatnonzero(np.isnan(bounds) & some).tolist():
        text = vector.labels.symbols.text
        notes.bad_bucket(text(int(le[row])), text(int(metric[row])), pos)
    good = ~np.isnan(bounds) & some
    if not good.any():
        return None
    return _side_by_side(vector.take(good), bounds[good])


def _bound(text: str) -> float:
    try:
        return float(text.replace("_", "?"))
    except ValueError:
        return np.nan


def _side_by_side(vector: Vector, bounds: Floats) -> Buckets:
    rest = vector.labels.drop(("le",))
    group, first = rest.groups()
    order = np.lexsort((bounds, group))
    group, bounds = group[order], bounds[order]
    values, mask = np.where(vector.mask, vector.values, 0.0)[order], vector.mask[order]
    # "0.1" and "0.10" are the same bucket: their counts add up.
    new = np.ones(len(order), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (bounds[1:] != bounds[:-1])
    starts = np.flatnonzero(new)
    if len(starts) < len(order):
        values = np.add.reduceat(values, starts, axis=0)
        mask = np.logical_or.reduceat(mask, starts, axis=0)
    group, bounds = group[starts], bounds[starts]
    begins = np.searchsorted(group, np.arange(len(first)))
    index = np.arange(len(group)) - begins[group]
    width, count, steps = int(index.max()) + 1, len(first), vector.steps
    all_bounds = np.full((width, count), np.nan)
    all_counts = np.zeros((width, count, steps))
    all_present = np.zeros((width, count, steps), dtype=bool)
    all_bounds[index, group] = bounds
    all_counts[index, group] = values
    all_present[index, group] = mask
    return Buckets(rest.take(first), all_bounds, all_counts, all_present, vector.drop_name[first])


def quantile(vector: Vector, q: Floats, notes: Annotations, q_pos: int, pos: int) -> Vector:
    _check_quantile(q, notes, q_pos)
    buckets = collect(vector, notes, pos)
    if buckets is None:
        return Vector.empty(vector.labels.drop(("le",)), vector.steps)
    return _quantile(buckets, q, notes, pos)


def quantiles(
    vector: Vector, label: str, qs: list[tuple[Floats, int]], notes: Annotations, pos: int
) -> Vector:
    for q, q_pos in qs:
        _check_quantile(q, notes, q_pos)
    buckets = collect(vector, notes, pos)
    if buckets is None:
        return Vector.empty(vector.labels.drop(("le",)), vector.steps)
    parts = []
    for q, _ in qs:
        whole = _quantile(buckets, q, notes, pos)
        distinct, which = np.unique(q, return_inverse=True)
        for i, value in enumerate(distinct.tolist()):
            at_steps = np.broadcast_to(which.reshape(-1) == i, whole.values.shape)
            code = whole.labels.symbols.intern(open_metrics_number(value))
            labels = whole.labels.with_column(label, np.full(len(whole), code, dtype=np.int32))
            parts.append(whole.replace(labels=labels, present=at_steps))
    return merge_equal(stack(parts))


def _check_quantile(q: Floats, notes: Annotations, pos: int) -> None:
    for wanted in dict.fromkeys(q[(q < 0) | (q > 1) | np.isnan(q)].tolist()):
        notes.quantile_out_of_range(wanted, pos)


def _monotonic(buckets: Buckets) -> tuple[Floats, Bools]:
    """Counts that never fall from one bucket to the next; and for which histograms that had to be forced."""
    counts = buckets.counts.copy()
    before = np.zeros(counts.shape[1:])
    seen = np.zeros(before.shape, dtype=bool)
    forced = np.zeros(before.shape, dtype=bool)
    for b in range(len(counts)):
        here, now = buckets.present[b], counts[b]
        noise = np.abs(now - before) <= _NOISE * (np.abs(now) + np.abs(before))
        falls = here & seen & (now < before) & ~noise
        forced |= falls
        counts[b] = np.where(here & seen & (noise | falls), before, now)
        before = np.where(here, counts[b], before)
        seen |= here
    return counts, forced


def _quantile(buckets: Buckets, q: Floats, notes: Annotations, pos: int) -> Vector:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        counts, forced = _monotonic(buckets)
        valid = (q >= 0) & (q <= 1)
        for row in np.flatnonzero((forced & valid).any(axis=1)).tolist():
            notes.not_monotonic(buckets.metric(row), pos)
        top, observations, complete = _topmost(buckets, counts)
        rank = q * observations
        value = _interpolate(buckets, counts, rank, top)
        value = np.where(complete & (observations != 0), value, np.nan)
        value = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, np.where(np.isnan(q), np.nan, value)))
    drop = np.ones(len(buckets.labels), dtype=bool)
    return Vector(buckets.labels, value, buckets.any_present, drop)


def _topmost(buckets: Buckets, counts: Floats) -> tuple[NDArray[np.intp], Floats, Bools]:
    """The index of the last bucket that is present, its count, and whether it is +Inf with another below."""
    top = np.zeros(counts.shape[1:], dtype=np.intp)
    observations = np.zeros(counts.shape[1:])
    bound = np.full(counts.shape[1:], np.nan)
    for b, (upper, _, here) in enumerate(buckets):
        top = np.where(here, b, top)
        observations = np.where(here, counts[b], observations)
        bound = np.where(here, upper, bound)
    several = np.count_nonzero(buckets.present, axis=0) >= 2
    return top, observations, np.isposinf(bound) & several


def _interpolate(buckets: Buckets, counts: Floats, rank: Floats, top: NDArray[np.intp]) -> Floats:
    """The value at `rank`, assuming that observations spread evenly inside their bucket."""
    shape = counts.shape[1:]
    value = np.full(shape, np.nan)
    found = np.zeros(shape, dtype=bool)
    first = np.ones(shape, dtype=bool)
    lower, below = np.zeros(shape), np.zeros(shape)
    for b, (upper, _, here) in enumerate(buckets):
        hit = here & ~found & (b < top) & (counts[b] >= rank)
        start = np.where(first, 0.0, lower)
        inside = start + (upper - start) * ((rank - below) / (counts[b] - below))
        value = np.where(hit, np.where(first & (upper <= 0), upper, inside), value)
        found |= hit
        last = here & (b < top)
        lower, below = np.where(last, upper, lower), np.where(last, counts[b], below)
        first &= ~here
    return np.where(found, value, lower)  # beyond all finite buckets: the highest finite bound


def fraction(vector: Vector, low: Floats, high: Floats, notes: Annotations, pos: int) -> Vector:
    """The share of observations between two values."""
    buckets = collect(vector, notes, pos)
    if buckets is None:
        return Vector.empty(vector.labels.drop(("le",)), vector.steps)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        _, total, _ = _topmost(buckets, buckets.counts)
        infinite = np.zeros(total.shape, dtype=bool)
        for upper, _, here in buckets:
            infinite |= here & np.isposinf(upper)
        share = (_rank_of(buckets, high, total) - _rank_of(buckets, low, total)) / total
        share = np.where(low >= high, 0.0, share)
        share = np.where(infinite & (total != 0) & ~np.isnan(low) & ~np.isnan(high), share, np.nan)
    drop = np.ones(len(buckets.labels), dtype=bool)
    return Vector(buckets.labels, share, buckets.any_present, drop)


def _rank_of(buckets: Buckets, value: Floats, total: Floats) -> Floats:
    """How many observations lie below `value`."""
    rank = np.zeros(total.shape)
    result = np.zeros(total.shape)
    found = np.zeros(total.shape, dtype=bool)
    lower = np.full(total.shape, np.nan)
    for upper, count, here in buckets:
        start = np.where(np.isnan(lower), np.where(upper > 0, 0.0, -np.inf), lower)
        at_start = here & ~found & (start >= value)
        result = np.where(at_start, rank, result)
        found |= at_start
        inside = here & ~found & (start < value) & (upper > value)
        # An open end cannot be divided: all of the lowest bucket, and nothing of the highest.
        part = np.where(np.isneginf(start), count, rank + (count - rank) * (value - start) / (upper - start))
        result = np.where(inside, part, result)
        found |= inside
        rank = np.where(here, count, rank)
        lower = np.where(here, upper, lower)
    return np.where(found & (result <= total), result, total)
