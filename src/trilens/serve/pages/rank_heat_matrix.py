"""Step times of all ranks as a matrix over time, from as many steps as can be read in a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.serve.pages.timeline_program import places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.serve.pages.timeline_grid import Floats, Grid
    from trilens.store.step_grids import Ints, StepsOfRanks, StepTimes

_ROWS_READ: Final = 600_000
_MOST_IN_CELL: Final = 9
_WORST: Final = 0.25  # of the rows that are shown, where not all are


@dataclass(frozen=True, slots=True, eq=False)
class ChosenSteps:
    """Places among the times of the steps that are read, the column of each, and its place in that."""

    places: NDArray[np.intp]
    column: Ints
    depth: Ints


def steps_in_cell(ranks: int, slots: int) -> int:
    """As many of each column as there is time to read; an odd number has a middle."""
    in_cell = max(1, min(_MOST_IN_CELL, _ROWS_READ // max(1, ranks * slots)))
    return in_cell - (1 - in_cell % 2)


def choose(times: StepTimes, grid: Grid, in_cell: int) -> ChosenSteps:
    """So many of each column, evenly over it."""
    column = (times.t_us // 1000 - grid.start_ms) // grid.width_ms
    first = np.searchsorted(column, np.arange(grid.slots))
    count = np.searchsorted(column, np.arange(grid.slots), side="right") - first
    takes = np.minimum(count, in_cell)
    depth = np.arange(in_cell)
    # The middles of equal parts of the column.
    within = ((2 * depth[None, :] + 1) * count[:, None]) // np.maximum(2 * takes[:, None], 1)
    is_taken = depth[None, :] < takes[:, None]
    places = (first[:, None] + within)[is_taken]
    columns, depths = np.nonzero(is_taken)
    return ChosenSteps(places, columns, depths)


def matrix_of(
    read: StepsOfRanks, us: Ints, times: StepTimes, chosen: ChosenSteps, ranks: Ints, grid: Grid
) -> Floats:
    """Milliseconds, a row for each of `ranks`, which are in order; NaN where nothing was told. `us` is what
    of the steps that were read is shown."""
    deepest = int(chosen.depth.max(initial=0)) + 1
    cells = np.full((len(ranks), grid.slots, deepest), np.nan, np.float32)
    if len(read.step) and len(ranks):
        where = np.full(len(times), -1, np.int64)
        where[chosen.places] = np.arange(len(chosen.places))
        places = places_of(times, read.step, read.attempt)
        at = np.where(places >= 0, where[places], -1)
        row = np.minimum(np.searchsorted(ranks, read.rank), len(ranks) - 1)
        known = (at >= 0) & (ranks[row] == read.rank)
        at, row = at[known], row[known]
        cells[row, chosen.column[at], chosen.depth[at]] = us[known] / 1000
    if deepest == 1:
        return cells[:, :, 0].astype(np.float64)
    cells.sort(axis=2)  # NaN comes last
    there = (~np.isnan(cells)).sum(axis=2)
    middle = np.maximum(there - 1, 0) // 2
    found: Floats = np.take_along_axis(cells, middle[:, :, None], axis=2)[:, :, 0].astype(np.float64)
    return found


def column_medians(cells: Floats) -> Floats:
    """Of all ranks in each column; NaN where none told."""
    ordered = np.sort(cells, axis=0)
    there = (~np.isnan(ordered)).sum(axis=0)
    if not len(cells):
        return np.full(cells.shape[1], np.nan)
    low, high = np.maximum(there - 1, 0) // 2, np.minimum(there // 2, len(cells) - 1)
    columns = np.arange(cells.shape[1])
    medians: Floats = (ordered[low, columns] + ordered[high, columns]) / 2
    return medians


def factors(cells: Floats, medians: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """How many times the median each rank needed at its worst, and in which column: where it was slow for
    more than a twentieth of its time. One slow step has many reasons, a slow rank has one."""
    if not cells.size:
        return np.full(len(cells), np.nan), np.zeros(len(cells), np.intp)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = cells / medians
    is_known = np.isfinite(ratio)
    ratio[~is_known] = -1.0
    there = is_known.sum(axis=1)
    rows = np.arange(len(cells))
    # To sort whole rows and look the value up takes a quarter of the time of argpartition.
    value = np.sort(ratio, axis=1)[rows, ratio.shape[1] - 1 - there // 20]
    column = (ratio == value[:, None]).argmax(axis=1)
    found: Floats = np.where(there > 0, value, np.nan)
    return found, column


def shown_rows(factor: Floats, most: int) -> NDArray[np.intp]:
    """All, or the worst of them and others evenly over the rest; in the order of their ranks."""
    if len(factor) <= most:
        return np.arange(len(factor))
    worst = np.argsort(-np.nan_to_num(factor, nan=-1.0), kind="stable")[: max(1, int(most * _WORST))]
    rest = np.setdiff1d(np.arange(len(factor)), worst)
    others = rest[np.unique(np.linspace(0, len(rest) - 1, most - len(worst)).astype(np.intp))]
    return np.sort(np.concatenate([worst, others]))
