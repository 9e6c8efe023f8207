"""Leaves: selectors, and functions of a range, turned into vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.labels import METRIC_NAME, LabelFrame
from trilens.model.series import GridRequest, Summaries
from trilens.promql import overtime, rate, summaries
from trilens.promql.vector import Grid, Vector
from trilens.promql.windows import latest, windows, without_stale

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.series import Floats, SampleBlock
    from trilens.promql.context import Context
    from trilens.promql.nodes import At, RangeSelector, Selector
    from trilens.promql.vector import Bools
    from trilens.promql.windows import Windows

RANGE_FUNCTIONS: Final[dict[str, Callable[[Windows], tuple[Floats, Bools]]]] = {
    "rate": rate.rate,
    "increase": rate.increase,
    "delta": rate.delta,
    "irate": rate.instant_rate,
    "idelta": rate.instant_delta,
    "changes": overtime.changes,
    "resets": overtime.resets,
    "deriv": overtime.slope,
    "avg_over_time": overtime.mean,
    "count_over_time": overtime.count,
    "first_over_time": overtime.first,
    "last_over_time": overtime.last,
    "mad_over_time": overtime.median_deviation,
    "max_over_time": overtime.largest,
    "min_over_time": overtime.smallest,
    "present_over_time": overtime.present,
    "stddev_over_time": overtime.deviation,
    "stdvar_over_time": overtime.variance,
    "sum_over_time": overtime.total,
    "ts_of_first_over_time": overtime.time_of_first,
    "ts_of_last_over_time": overtime.time_of_last,
    "ts_of_max_over_time": overtime.time_of_largest,
    "ts_of_min_over_time": overtime.time_of_smallest,
}
"""Functions of one range vector and nothing else. Those with further arguments are called by name."""

KEEP_NAME: Final = frozenset({"last_over_time", "first_over_time"})


def leaf_grid(ctx: Context, grid: Grid, offset_ms: int, at: At | None) -> Grid:
    """The times a selector looks at: a single one where `@` fixes it."""
    if at is None:
        return grid.shifted(-offset_ms)
    return Grid(ctx.fixed_time(at) - offset_ms, 1, 1)


def select_instant(ctx: Context, node: Selector, grid: Grid) -> Vector:
    """The latest sample of each series, as long as it is not older than the lookback."""
    at = leaf_grid(ctx, grid, node.offset_ms, node.at)
    pushed = _pushed_down(ctx, node, at, "instant", ctx.lookback_ms)
    if pushed is None:
        labels, block = ctx.select(node.matchers, at.start - ctx.lookback_ms, at.end)
        ctx.guard.take_samples(len(labels) * at.count)
        index, present = latest(block, at, ctx.lookback_ms)
        values = block.v[index] if len(block.v) else np.zeros(index.shape)
        pushed = _vector(labels, values, present, drop_name=False)
    return pushed.spread(grid.count)


def select_timestamps(ctx: Context, node: Selector, grid: Grid) -> Vector:
    """As `select_instant`, but when the sample was taken instead of its value."""
    at = leaf_grid(ctx, grid, node.offset_ms, node.at)
    labels, block = ctx.select(node.matchers, at.start - ctx.lookback_ms, at.end)
    ctx.guard.take_samples(len(labels) * at.count)
    index, present = latest(block, at, ctx.lookback_ms)
    values = block.t[index] / 1000.0 if len(block.t) else np.zeros(index.shape)
    return _vector(labels, values, present, drop_name=True).spread(grid.count)


class Ranged(NamedTuple):
    """A range vector: which samples each series has in its window at each step (or at one, fixed by `@`)."""

    labels: LabelFrame
    windows: Windows
    drop_name: Bools


def select_windows(ctx: Context, node: RangeSelector, grid: Grid) -> Ranged:
    selector = node.selector
    at = leaf_grid(ctx, grid, selector.offset_ms, selector.at)
    labels, block = ctx.select(selector.matchers, at.start - node.range_ms, at.end)
    found = make_windows(ctx, without_stale(block), at, node.range_ms)
    return Ranged(labels, found, np.zeros(len(labels), dtype=bool))


def make_windows(ctx: Context, block: SampleBlock, grid: Grid, range_ms: int) -> Windows:
    ctx.guard.take_samples((len(block.offsets) - 1) * grid.count)
    return windows(block, grid, range_ms)


def push_down_range(ctx: Context, function: str, node: RangeSelector, grid: Grid) -> Vector | None:
    """A function of a range selector, computed where the samples lie; None if that is not possible."""
    at = leaf_grid(ctx, grid, node.selector.offset_ms, node.selector.at)
    vector = _pushed_down(ctx, node.selector, at, function, node.range_ms)
    return None if vector is None else vector.spread(grid.count)


def _pushed_down(ctx: Context, node: Selector, at: Grid, function: str, range_ms: int) -> Vector | None:
    columns = summaries.COLUMNS.get(function, ())
    request = GridRequest(node.matchers, function, at.start, at.end, at.step, range_ms, columns)
    found = ctx.grid(request)
    if found is None:
        return None
    labels = found.labels.coded_by(ctx.symbols)
    drop_name = function not in KEEP_NAME and function != "instant"
    if isinstance(found, Summaries):
        values, present = summaries.evaluate(function, found, at, range_ms)
        return _vector(labels, values, present, drop_name=drop_name)
    return _vector(labels, found.values, found.present, drop_name=drop_name)


def _vector(labels: LabelFrame, values: Floats, present: Bools | None, *, drop_name: bool) -> Vector:
    return Vector(labels, values, present, np.full(len(labels), drop_name))


def metric_names(vector: Vector) -> list[str]:
    """The names of the metrics that have a value at any step."""
    codes = np.unique(vector.labels.column(METRIC_NAME)[vector.some_present])
    return vector.labels.symbols.texts(codes.tolist())
