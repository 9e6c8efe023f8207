"""A second opinion on range functions: one series, one step, one sample at a time."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Sample = tuple[int, float]


def window(samples: list[Sample], end_ms: int, range_ms: int) -> list[Sample]:
    """Left-open: a sample exactly at the start is outside. Staleness markers must be gone already."""
    return [(t, v) for t, v in samples if end_ms - range_ms < t <= end_ms]


def _mean(values: list[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):  # infinities of both signs, or beyond the largest number
        if any(map(math.isinf, values)) or any(map(math.isnan, values)):
            return sum(values) / len(values)
        return math.fsum(v / len(values) for v in values)


def _total(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)


def _smallest(values: list[float]) -> float:
    known = [v for v in values if not math.isnan(v)]
    return min(known) if known else math.nan


def _largest(values: list[float]) -> float:
    known = [v for v in values if not math.isnan(v)]
    return max(known) if known else math.nan


def _changes(values: list[float]) -> float:
    pairs = itertools.pairwise(values)
    return float(sum(1 for a, b in pairs if a != b and not (math.isnan(a) and math.isnan(b))))


def _resets(values: list[float]) -> float:
    return float(sum(1 for a, b in itertools.pairwise(values) if b < a))


def _variance(values: list[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = _mean(values)
    return math.fsum((v - mean) ** 2 for v in values) / len(values)


def quantile(q: float, values: list[float]) -> float:
    if math.isnan(q):
        return math.nan
    if not 0 <= q <= 1:
        return math.copysign(math.inf, q)
    ordered = sorted(values, key=lambda v: (not math.isnan(v), v))  # NaN is the smallest
    rank = q * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(len(ordered) - 1, low + 1)
    weight = rank - low
    return ordered[low] * (1 - weight) + ordered[high] * weight


VALUE_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "sum_over_time": _total,
    "avg_over_time": _mean,
    "min_over_time": _smallest,
    "max_over_time": _largest,
    "count_over_time": lambda values: float(len(values)),
    "first_over_time": lambda values: values[0],
    "last_over_time": lambda values: values[-1],
    "present_over_time": lambda values: 1.0,
    "changes": _changes,
    "resets": _resets,
    "stdvar_over_time": _variance,
    "stddev_over_time": lambda values: math.sqrt(_variance(values)),
}


def extrapolated(
    samples: list[Sample], end_ms: int, range_ms: int, *, counter: bool, per_second: bool
) -> float | None:
    if len(samples) < 2:
        return None
    (first_t, first), (last_t, last) = samples[0], samples[-1]
    change = last - first
    if counter:
        for (_, a), (_, b) in itertools.pairwise(samples):
            if b < a:
                change += a
    sampled = (last_t - first_t) / 1000
    interval = sampled / (len(samples) - 1)
    to_start = (first_t - (end_ms - range_ms)) / 1000
    to_end = (end_ms - last_t) / 1000
    if to_start >= interval * 1.1:
        to_start = interval / 2
    if counter and change > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / change))
    if to_end >= interval * 1.1:
        to_end = interval / 2
    result = change * ((sampled + to_start + to_end) / sampled)
    return result / (range_ms / 1000) if per_second else result


def last_two(samples: list[Sample], *, counter: bool) -> float | None:
    if len(samples) < 2:
        return None
    (before_t, before), (t, v) = samples[-2:]
    change = v if counter and v < before else v - before
    return change / ((t - before_t) / 1000) if counter else change
