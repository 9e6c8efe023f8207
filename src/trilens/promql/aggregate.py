"""Aggregations: many series to few, at every step at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilens.model.errors import PromQLEvalError
from trilens.model.labels import METRIC_NAME, LabelFrame
from trilens.promql.format import number, positional
from trilens.promql.labelhash import fraction_of
from trilens.promql.summation import sum_rows
from trilens.promql.vector import METADATA_LABELS, Bools, Vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.series import Floats
    from trilens.promql.annotations import Annotations


@dataclass(frozen=True, slots=True)
class Groups:
    """Series sorted so that each group's lie together, group g's from `starts[g]` up to the next start."""

    order: NDArray[np.intp] | None  # None where they lie together already
    starts: NDArray[np.intp]
    labels: LabelFrame

    def __len__(self) -> int:
        return len(self.starts)

    def arrange(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self.order is None else rows[self.order]

    def sizes(self, total: int) -> NDArray[np.intp]:
        return np.diff(np.append(self.starts, total))


def group_rows(labels: LabelFrame, names: tuple[str, ...], *, without: bool) -> Groups:
    kept = labels.drop((*names, *METADATA_LABELS)) if without else labels.keep(names)
    if not kept.names:
        first = np.zeros(min(1, len(labels)), dtype=np.intp)
        return Groups(None, first, kept.take(first))
    group, first = kept.groups()
    if len(group) < 2 or (np.diff(group) >= 0).all():
        return Groups(None, np.searchsorted(group, np.arange(len(first))), kept.take(first))
    order = np.argsort(group, kind="stable")
    return Groups(order, np.searchsorted(group[order], np.arange(len(first))), kept.take(first))


def aggregate(op: str, vector: Vector, groups: Groups) -> Vector:
    """sum, avg, count, min, max, group, stddev and stdvar."""
    if not len(vector):
        return Vector.empty(groups.labels, vector.steps)
    values = groups.arrange(vector.values)
    present = None if vector.present is None else groups.arrange(vector.present)
    sizes = groups.sizes(len(values))
    if present is None:
        counts = np.broadcast_to(sizes[:, None], (len(groups), vector.steps))
    else:
        counts = _counted(present, groups.starts)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        result = _AGGREGATIONS[op](values, present, groups.starts, counts)
    named = METRIC_NAME in groups.labels.names and bool(vector.drop_name.any())
    drop = np.logical_or.reduceat(groups.arrange(vector.drop_name), groups.starts) if named else None
    drop_name = np.zeros(len(groups), dtype=bool) if drop is None else drop
    return Vector(groups.labels, result, None if present is None else counts > 0, drop_name)


def _counted(present: Bools, starts: NDArray[Any]) -> NDArray[np.int64]:
    if len(starts) == len(present):
        return present.astype(np.int64)
    return np.add.reduceat(present, starts, axis=0, dtype=np.int64)


def _sum(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
    return sum_rows(values, present, starts)


def _mean(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
    mean = sum_rows(values, present, starts) / counts
    if np.isinf(mean).any():  # a sum beyond the largest number; a true infinity stays one
        share = np.repeat(counts, np.diff(np.append(starts, len(values))), axis=0)
        mean = np.where(np.isinf(mean), sum_rows(values / share, present, starts), mean)
    return np.asarray(mean)


def _count(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
    return counts.astype(np.float64)


def _group(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
    return np.ones(counts.shape)


def _extreme(op: np.ufunc) -> Callable[..., Floats]:
    def compute(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
        known = values if present is None else np.where(present, values, np.nan)
        if len(starts) == len(known):
            return known
        result: Floats = op.reduceat(known, starts, axis=0)  # fmin and fmax pass over NaN while they can
        return result

    return compute


def _variance(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
    sizes = np.diff(np.append(starts, len(values)))
    middle = _mean(values, present, starts, counts)
    distance = values - np.repeat(middle, sizes, axis=0)
    # The mean's own rounding leaves a small common distance; taking it out makes equal values give 0.
    distance -= np.repeat(sum_rows(distance, present, starts) / counts, sizes, axis=0)
    return np.asarray(sum_rows(distance * distance, present, starts) / counts)


def _deviation(values: Floats, present: Bools | None, starts: NDArray[Any], counts: NDArray[Any]) -> Floats:
    return np.sqrt(_variance(values, present, starts, counts))


_AGGREGATIONS: Final[dict[str, Callable[..., Floats]]] = {
    "sum": _sum,
    "avg": _mean,
    "count": _count,
    "group": _group,
    "min": _extreme(np.fmin),
    "max": _extreme(np.fmax),
    "stdvar": _variance,
    "stddev": _deviation,
}


def quantile(vector: Vector, groups: Groups, q: Floats, notes: Annotations, pos: int) -> Vector:
    for wanted in dict.fromkeys(q[(q < 0) | (q > 1) | np.isnan(q)].tolist()):
        notes.quantile_out_of_range(wanted, pos)
    if not len(vector):
        return Vector.empty(groups.labels, vector.steps)
    values, mask = groups.arrange(vector.values), groups.arrange(vector.mask)
    ranked = _ranked(values, mask, groups, descending=False)
    counts = _counted(mask, groups.starts)
    nans = np.add.reduceat(mask & np.isnan(values), groups.starts, axis=0, dtype=np.int64)
    ascending = np.take_along_axis(values, ranked, axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        rank = q * (counts - 1)
        below = np.clip(np.nan_to_num(np.floor(rank)), 0, np.maximum(counts - 1, 0)).astype(np.intp)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        weight = rank - np.floor(rank)

        def at(index: NDArray[Any]) -> Floats:  # NaN is the smallest of all values, but was sorted last
            row = groups.starts[:, None] + np.maximum(index - nans, 0)
            return np.where(index < nans, np.nan, np.take_along_axis(ascending, row, axis=0))

        result = at(below) * (1 - weight) + at(above) * weight
        result = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, result))
        result = np.where(np.isnan(q), np.nan, result)
    drop = np.logical_or.reduceat(groups.arrange(vector.drop_name), groups.starts)
    return Vector(groups.labels, result, counts > 0, drop)


def _ranked(values: Floats, mask: Bools, groups: Groups, *, descending: bool) -> NDArray[np.intp]:
    """Row numbers by value within each group and step: NaN after all numbers, missing after all."""
    key = np.negative(values) if descending else values
    keys: list[NDArray[Any]] = [key]
    if not mask.all():
        keys.append(~mask)
    if len(groups) > 1:
        number_of = np.repeat(np.arange(len(groups)), groups.sizes(len(values)))
        keys.append(np.broadcast_to(number_of[:, None], values.shape))
    if len(keys) == 1:
        return np.argsort(key, axis=0, kind="stable")
    return np.lexsort(keys, axis=0)


def keep_ranked(op: str, vector: Vector, groups: Groups, k: Floats) -> Vector:
    """topk, bottomk and limitk: the series themselves, each at the steps where it is among the k."""
    if np.isnan(k).any():
        raise PromQLEvalError("Parameter value is NaN")
    if (np.abs(k) >= 2**63).any():
        raise PromQLEvalError(f"Scalar value {number(float(k[np.abs(k) >= 2**63][0]))} overflows int64")
    if not len(vector) or k.max() < 1:
        return Vector.empty(vector.labels, vector.steps)
    values, mask = groups.arrange(vector.values), groups.arrange(vector.mask)
    rows = len(values)
    within = np.arange(rows) - np.repeat(groups.starts, groups.sizes(rows))
    if op == "limitk":
        seen = np.cumsum(mask, axis=0)
        before = np.repeat(np.concatenate(([seen[0] * 0], seen))[groups.starts], groups.sizes(rows), axis=0)
        chosen = mask & (seen - before <= np.floor(k))
        order = np.arange(rows)
    else:
        ranked = _ranked(values, mask, groups, descending=op == "topk")
        chosen = np.zeros(values.shape, dtype=bool)
        np.put_along_axis(chosen, ranked, within[:, None] < np.floor(k), axis=0)
        chosen &= mask
        # An instant answer is listed best first; a range answer is sorted by labels in the end anyway.
        order = ranked[:, 0] if vector.steps == 1 else np.arange(rows)
    original = order if groups.order is None else groups.order[order]
    result = vector.take(original).replace(present=chosen[order])
    return result.only_present()


def keep_ratio(vector: Vector, ratio: Floats, notes: Annotations, pos: int) -> Vector:
    """limit_ratio: a share of the series, the same ones every time; -r is what r leaves out."""
    if np.isnan(ratio).any():
        raise PromQLEvalError("Ratio value is NaN")
    for wanted in dict.fromkeys(ratio[np.abs(ratio) > 1].tolist()):
        notes.ratio_out_of_range(wanted, 1.0 if wanted > 0 else -1.0, pos)
    ratio = np.clip(ratio, -1, 1)
    place = np.array([fraction_of(vector.labels.labels(i)) for i in range(len(vector))])[:, None]
    chosen = np.where(ratio >= 0, place < ratio, place >= 1 + ratio)
    kept = vector.replace(present=chosen.reshape(len(vector), vector.steps))
    return kept.only_present()


def count_values(
    vector: Vector, names: tuple[str, ...], *, without: bool, label: str, guard: QueryGuard
) -> Vector:
    """One series for each distinct value of each group; the value becomes the label's value."""
    kept = vector.labels.drop((*names, *METADATA_LABELS)) if without else vector.labels.keep(names)
    kept = kept.drop((label,))
    group, first = kept.groups()
    rows, steps = np.nonzero(vector.mask)
    bits, which = np.unique(vector.values[rows, steps].view(np.uint64), return_inverse=True)
    texts = [positional(x) for x in bits.view(np.float64).tolist()]
    codes, code_of = np.unique(vector.labels.symbols.intern_all(texts), return_inverse=True)
    key = group[rows] * len(codes) + code_of.reshape(-1)[which.reshape(-1)]
    found, series = np.unique(key, return_inverse=True)
    guard.take_samples(len(found) * vector.steps)
    cell = series.reshape(-1) * vector.steps + steps
    counts = np.bincount(cell, minlength=len(found) * vector.steps).reshape(len(found), vector.steps)
    in_group, with_code = found // max(1, len(codes)), found % max(1, len(codes))
    labels = kept.take(first[in_group]).with_column(label, codes[with_code].astype(np.int32))
    drop = np.zeros(len(found), dtype=bool)
    if METRIC_NAME in kept.names:
        drop = np.isin(in_group, group[vector.drop_name])
    return Vector(labels, counts.astype(np.float64), counts > 0, drop)
