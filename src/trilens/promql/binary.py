"""Binary operators between vectors and scalars, and the matching of series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from trilens.model.errors import PromQLEvalError
from trilens.model.labels import METRIC_NAME, LabelFrame
from trilens.promql.annotations import quote
from trilens.promql.nodes import COMPARISONS
from trilens.promql.vector import (
    METADATA_LABELS,
    Bools,
    Vector,
    merge_equal,
    refuse_overlap,
    stack,
    stack_labels,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.series import Floats
    from trilens.promql.nodes import Matching

_MANY_TO_ONE: Final = (
    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
)
_NOT_UNIQUE: Final = "multiple matches for labels: grouping labels must ensure unique matches"

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


def apply(op: str, lhs: Floats, rhs: Floats) -> Any:
    """The operator on numbers: floats for arithmetic, booleans for a comparison."""
    with np.errstate(all="ignore"):
        return _OPERATORS[op](lhs, rhs)


def scalars(op: str, lhs: Floats, rhs: Floats) -> Floats:
    result: Floats = np.asarray(apply(op, lhs, rhs), dtype=np.float64)
    return result


def vector_scalar(op: str, vector: Vector, scalar: Floats, *, swapped: bool, return_bool: bool) -> Vector:
    left, right = (scalar, vector.values) if swapped else (vector.values, scalar)
    result = apply(op, left, right)
    if op not in COMPARISONS:
        return vector.replace(values=result, drop_name=True)
    if return_bool:
        return vector.replace(values=result.astype(np.float64), drop_name=True)
    return vector.replace(present=result)


class _Keys(NamedTuple):
    """Which match group each series of either side belongs to."""

    many: NDArray[np.intp]
    one: NDArray[np.intp]
    groups: int


def _match_labels(labels: LabelFrame, matching: Matching) -> LabelFrame:
    return labels.keep(matching.labels) if matching.on else labels.drop((*matching.labels, METRIC_NAME))


def _keys(left: LabelFrame, right: LabelFrame, matching: Matching) -> _Keys:
    both = stack_labels([_match_labels(left, matching), _match_labels(right, matching)])
    group, first = both.groups()
    return _Keys(group[: len(left)], group[len(left) :], len(first))


def _any_in_group(vector: Vector, keys: NDArray[np.intp], groups: int) -> Bools:
    """Whether any series of the group has a value, for each group and step."""
    there = np.zeros((groups, vector.steps), dtype=bool)
    if not len(keys):
        return there
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    there[found] = np.logical_or.reduceat(vector.mask[order], starts, axis=0)
    return there


def set_operation(op: str, lhs: Vector, rhs: Vector, matching: Matching) -> Vector:
    keys = _keys(lhs.labels, rhs.labels, matching)
    if op == "or":
        taken = _any_in_group(lhs, keys.many, keys.groups)
        extra = rhs.replace(present=~taken[keys.one])
        return merge_equal(stack([lhs, extra.only_present()]))
    there = _any_in_group(rhs, keys.one, keys.groups)[keys.many]
    return lhs.replace(present=there if op == "and" else ~there)


def vectors(op: str, lhs: Vector, rhs: Vector, matching: Matching, *, return_bool: bool) -> Vector:
    """Pair each series of the "many" side (the left one, unless group_right) with its one on the other."""
    many, one = (rhs, lhs) if matching.many_right else (lhs, rhs)
    keys = _keys(many.labels, one.labels, matching)
    one_is_unique = _unique(keys.one, keys.groups)
    if not one_is_unique:
        # At a step with nothing to pair, nothing is ambiguous either.
        filled = matching.fill_left is not None or matching.fill_right is not None
        paired = np.ones(one.steps, dtype=bool) if filled else many.mask.any(axis=0)
        _refuse_duplicates(one, keys.one, paired, matching)
    pairs = _pairs(keys)
    parts = [_combine(op, many.take(pairs.many), one.take(pairs.one), matching, return_bool)]
    if not matching.grouped and one_is_unique and _unique(keys.many, keys.groups):
        parts += _fill(op, many, one, keys, matching, return_bool)
        joined = stack([part.result for part in parts])
        result = joined if len(parts) == 1 else merge_equal(joined)
    else:
        # Checked before a comparison filters: an ambiguous pair is an error even where it would not be kept.
        if not matching.grouped:
            group = keys.many[pairs.many]
            refuse_overlap(group, np.unique(group, return_index=True)[1], parts[0].both, _MANY_TO_ONE)
        parts += _fill(op, many, one, keys, matching, return_bool)
        joined = stack([part.result for part in parts])
        refuse_overlap(*joined.labels.groups(), np.concatenate([part.both for part in parts]), _NOT_UNIQUE)
        result = merge_equal(joined)
    return result


def _unique(keys: NDArray[np.intp], count: int) -> bool:
    return not len(keys) or int(np.bincount(keys, minlength=count).max()) <= 1


class _Pairs(NamedTuple):
    many: NDArray[np.intp]
    one: NDArray[np.intp]


def _pairs(keys: _Keys) -> _Pairs:
    """All pairs of rows with the same key; as a rule there is at most one for each row of the many side."""
    order = np.argsort(keys.one, kind="stable")
    starts = np.searchsorted(keys.one[order], np.arange(keys.groups + 1))
    sizes = np.diff(starts)[keys.many]
    many = np.repeat(np.arange(len(keys.many)), sizes)
    within = np.arange(len(many)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return _Pairs(many, order[np.repeat(starts[keys.many], sizes) + within])


class _Combined(NamedTuple):
    result: Vector
    both: Bools  # where both sides have a value, before a comparison filters


def _combine(op: str, left: Vector, right: Vector, matching: Matching, return_bool: bool) -> _Combined:
    """Row i of the many side with row i of the one side."""
    labels = _result_labels(left.labels, right.labels, op, matching)
    a, b = (right, left) if matching.many_right else (left, right)
    computed = apply(op, a.values, b.values)
    both = left.mask & right.mask
    drop = left.drop_name | return_bool
    if op not in COMPARISONS:
        return _Combined(Vector(labels, computed, both, drop), both)
    if return_bool:
        return _Combined(Vector(labels, computed.astype(np.float64), both, drop), both)
    return _Combined(Vector(labels, a.values, both & computed, drop), both)


def _result_labels(many: LabelFrame, one: LabelFrame, op: str, matching: Matching) -> LabelFrame:
    labels = many if op in COMPARISONS else many.drop(METADATA_LABELS)
    if not matching.grouped:
        labels = labels.keep(matching.labels) if matching.on else labels.drop(matching.labels)
    for name in matching.include:
        labels = labels.with_column(name, one.column(name))
    return labels


def _fill(
    op: str, many: Vector, one: Vector, keys: _Keys, matching: Matching, return_bool: bool
) -> list[_Combined]:
    """Rows for the steps at which one side has a value and the other none, where a fill value stands in.

    As in Prometheus, fill_left speaks of the many side and fill_right of the one side, group_right or not.
    """
    parts = []
    if matching.fill_right is not None and len(many):
        missing = ~_any_in_group(one, keys.one, keys.groups)[keys.many]
        stand_in = _stand_in(many, missing, matching, matching.fill_right)
        parts.append(_combine(op, many, stand_in, matching, return_bool))
    if matching.fill_left is not None and len(one):
        missing = ~_any_in_group(many, keys.many, keys.groups)[keys.one]
        stand_in = _stand_in(one, missing, matching, matching.fill_left)
        parts.append(_combine(op, stand_in, one, matching, return_bool))
    return parts


def _stand_in(other: Vector, missing: Bools, matching: Matching, value: float) -> Vector:
    labels = _match_labels(other.labels, matching)
    return Vector(labels, np.full(other.values.shape, value), missing, np.zeros(len(other), dtype=bool))


def _refuse_duplicates(one: Vector, keys: NDArray[np.intp], paired: Any, matching: Matching) -> None:
    """Two series of the "one" side in the same match group at the same step."""
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    counts = np.add.reduceat(one.mask[order] & paired, starts, axis=0, dtype=np.int32)
    if counts.max(initial=0) <= 1:
        return
    group, step = (int(x[0]) for x in np.nonzero(counts > 1))
    rows = [r for r in np.flatnonzero(keys == found[group]).tolist() if one.mask[r, step]][:2]
    side = "left" if matching.many_right else "right"
    shared = _written(_match_labels(one.labels, matching), rows[0])
    names = ", ".join(_written(one.labels, row) for row in rows)
    raise PromQLEvalError(
        f"found duplicate series for the match group {shared} on the {side} hand-side of the operation: "
        f"[{names}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def _written(labels: LabelFrame, row: int) -> str:
    return "{" + ", ".join(f"{n}={quote(v)}" for n, v in labels.labels(row).items()) + "}"
