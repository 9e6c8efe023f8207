"""The curve of a value, from what each group of step records came to at each step.

A step's ranks come in several groups. The engine's own aggregation takes several times as long: which rank
was worst is a comparison by several columns there, row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trilens.model.run_curve import Curve, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

_Places: TypeAlias = NDArray[np.intp]

COLUMNS = "step, attempt, t_us, told, total, worst, worst_rank"
_NOBODY = np.iinfo(np.int64).max


def curve_of(groups: pa.Table) -> Curve:
    """`groups` has the columns above, in any order of its rows."""
    if not groups.num_rows:
        return Curve.of([])
    step, attempt = _ints(groups, "step"), _ints(groups, "attempt")
    order = np.lexsort((attempt, step))  # rows of one part are in order already, which it makes use of
    step, attempt = step[order], attempt[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(step) != 0) | (np.diff(attempt) != 0)
    first = np.flatnonzero(is_first)
    worst, rank = _floats(groups, "worst")[order], _ints(groups, "worst_rank")[order]
    at = _worst(worst, rank, first)
    told = np.add.reduceat(_ints(groups, "told")[order], first)
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
        mean = np.add.reduceat(_floats(groups, "total")[order], first) / told
    t_us = np.minimum.reduceat(_ints(groups, "t_us")[order], first)
    return Curve(step[first], attempt[first], t_us, mean, worst[at], rank[at])


def _worst(worst: Floats, rank: Ints, first: _Places) -> _Places:
    """Where, of each point: what is not finite, else the largest; the lowest rank's of several."""
    counts = np.diff(first, append=len(worst))
    badness = np.where(np.isfinite(worst), worst, np.inf)
    is_worst = badness == np.repeat(np.maximum.reduceat(badness, first), counts)
    lowest = np.minimum.reduceat(np.where(is_worst, rank, _NOBODY), first)
    found = np.flatnonzero(is_worst & (rank == np.repeat(lowest, counts)))
    return found[np.searchsorted(found, first)]


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), np.float64)
