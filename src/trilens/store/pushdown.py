"""Leaves computed in the engine by its own grid functions, where they give what PromQL means.

Which of them are exact, and why the others are not used: docs/decisions/pushdown.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.series import STALE_BITS, stale_mask
from trilens.store import sql
from trilens.store.rows import BUCKET_MS, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.series import Floats, GridRequest
    from trilens.store.engine import Engine


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One of the engine's functions. It takes a staleness marker for any other value, so markers are either
    kept out of its sight or, where one as the last sample means "nothing here", looked for in its answer."""

    name: str
    markers: bool = False  # the function sees them
    finite: bool = False  # only finite answers count: its sums overflow where Prometheus's do not


AGGREGATES: Final[dict[str, Aggregate]] = {
    "instant": Aggregate("timeSeriesLastToGrid", markers=True),
    "last_over_time": Aggregate("timeSeriesLastToGrid"),
    "min_over_time": Aggregate("timeSeriesMinToGrid"),
    "max_over_time": Aggregate("timeSeriesMaxToGrid"),
    "sum_over_time": Aggregate("timeSeriesSumToGrid", finite=True),
    "avg_over_time": Aggregate("timeSeriesAvgToGrid", finite=True),
    "count_over_time": Aggregate("timeSeriesCountToGrid"),
    "resets": Aggregate("timeSeriesResetsToGrid"),
    "delta": Aggregate("timeSeriesDeltaToGrid"),
    "irate": Aggregate("timeSeriesInstantRateToGrid", finite=True),
    "idelta": Aggregate("timeSeriesInstantDeltaToGrid"),
}

# What allows them, in newer engines and in older ones.
_SETTINGS: Final = (
    "enable_time_series_aggregate_functions",
    "allow_experimental_ts_to_grid_aggregate_function",
)

# Milliseconds of processor time (best of 3), 24 h of samples at 15 s: a whole query from rows and numpy, then
# the engine's statement alone. Whole queries both ways are in docs/decisions/pushdown.md.
#
#     series, step, range       instant      max        sum        delta      irate
#     1,160, 120 s, 5 min       880  349   1152  483  1049  706   983  686   956  452
#     1,160,  60 s, 1 h         813  403   1323  481  1777  689   986  773   994  557
#     1,160,  15 s, 1 min       860 1919   1622 2435  1360 2533  1107 2549  1350 2327
#       160, 120 s, 5 min       234  172    274  179   252  239   257  217   259  195
#         8, 120 s, 5 min        35   28     32   31    33   34    31   29    33   29
#
# So it pays where a step sums up several samples; the limit lies between measured points. Of few series the
# samples themselves are kept in memory (strips.py), and are not asked for here.
_MIN_STEP_MS: Final = 60_000
# Of steps below this, whether they sum up several samples is looked up first: a metric may be sampled once a
# minute. Where they sum up fewer than so many, reading the samples is quicker (docs/decisions/pushdown.md).
_WIDE_STEP_MS: Final = 120_000
_SAMPLES_A_STEP: Final = 2
_FEW_POINTS: Final = 4 << 20  # of more, the samples might not fit into the memory that a query may take

_TIMES: Final = range(10_413_792_000_000)  # the engine's DateTime64 ends with the year 2299


class Pushdown:
    """Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._shards = engine.shards()
        settings = _names(engine, f"settings WHERE NOT readonly AND name IN {sql.text_list(_SETTINGS)}")
        functions = _names(engine, "functions WHERE is_aggregate AND startsWith(name, 'timeSeries')")
        self._settings: dict[str, int | float] = {name: 1 for name in _SETTINGS if name in settings}
        self._aggregates = {
            function: aggregate
            for function, aggregate in AGGREGATES.items()
            if aggregate.name in functions and self._settings
        }

    def takes(self, request: GridRequest) -> bool:
        """Whether the function can be computed in the engine, and its steps are wide enough for it to pay."""
        return (
            request.function in self._aggregates
            and (request.steps == 1 or request.step_ms >= _MIN_STEP_MS)
            and request.start_ms - request.range_ms in _TIMES
            and request.end_ms in _TIMES
        )

    def pays(
        self,
        request: GridRequest,
        metrics: Sequence[str],
        series: int,
        every_series: bool,
        guard: QueryGuard,
    ) -> bool:
        """Whether it is quicker than reading the samples, as far as the index tells how many these are."""
        is_wide = request.steps == 1 or request.step_ms >= _WIDE_STEP_MS
        if is_wide or not every_series or series * request.steps > _FEW_POINTS:
            return True
        begin_ms, end_ms = request.start_ms - request.range_ms, request.end_ms
        bucket = (begin_ms + end_ms) // 2 // BUCKET_MS
        estimate = self._engine.query_arrow(
            f"EXPLAIN ESTIMATE SELECT v FROM {self._engine.part_of('samples')} "
            f"WHERE metric IN {sql.text_list(metrics)} AND intDiv(t, {BUCKET_MS}) = {bucket}",
            guard=guard,
        )
        samples = int(estimate["rows"].to_numpy().sum()) * self._shards
        # Of a bucket asked for in part this is too many: rather the engine than more samples than expected.
        asked_ms = min(end_ms, (bucket + 1) * BUCKET_MS) - max(begin_ms, bucket * BUCKET_MS)
        return not samples or samples * request.step_ms >= _SAMPLES_A_STEP * series * asked_ms

    def read(
        self,
        request: GridRequest,
        ids: NDArray[np.uint64],
        metrics: Sequence[str],
        every_series: bool,
        guard: QueryGuard,
    ) -> tuple[Floats, NDArray[np.bool_]] | None:
        """Values and whether they are there, (series, steps), for `ids` in ascending order; None where only
        samples give the right answer. The engine must hold all samples of the request."""
        aggregate = self._aggregates[request.function]
        guard.take_samples(len(ids) * request.steps)
        begin = request.start_ms - request.range_ms
        condition = where(metrics, None if every_series else ids, "t", begin, request.end_ms)
        table = self._engine.query_arrow(
            _statement(aggregate, request, condition), guard=guard, settings=self._settings
        )
        values, present = _placed(table, ids, request.steps)
        if aggregate.markers:
            present &= ~stale_mask(values)
        if aggregate.finite and not np.isfinite(values).all():
            return None
        return values, present


def _statement(aggregate: Aggregate, request: GridRequest, condition: str) -> str:
    grid = ", ".join(
        (
            f"toDateTime64('{_seconds(request.start_ms)}', 3, 'UTC')",
            f"toDateTime64('{_seconds(request.end_ms)}', 3, 'UTC')",
            f"toDecimal64('{_seconds(request.step_ms)}', 3)",
            f"toDecimal64('{_seconds(request.range_ms)}', 3)",
        )
    )
    if not aggregate.markers:
        condition += f" AND reinterpretAsUInt64(v) != {STALE_BITS}"
    return (
        f"SELECT series, {aggregate.name}({grid})(fromUnixTimestamp64Milli(t, 'UTC'), v) AS grid "
        f"FROM samples WHERE {condition} GROUP BY series"
    )


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _placed(table: pa.Table, ids: NDArray[np.uint64], steps: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The rows as one matrix, 0 where nothing is. They come in any order, some of series not asked for."""
    values = np.zeros((len(ids), steps))
    present = np.zeros((len(ids), steps), dtype=bool)
    if len(ids) == 0:
        return values, present
    for batch in table.to_batches():
        series = batch.column("series").to_numpy()
        at = np.minimum(np.searchsorted(ids, series), len(ids) - 1)
        known = ids[at] == series
        points = batch.column("grid").flatten()
        there = points.is_valid().to_numpy(zero_copy_only=False).reshape(-1, steps)
        found = points.to_numpy(zero_copy_only=False).reshape(-1, steps)
        if not known.all():
            at, there, found = at[known], there[known], found[known]
        present[at] = there
        values[at] = np.where(there, found, 0.0)
    return values, present


def _names(engine: Engine, table_and_condition: str) -> set[str]:
    return set(engine.query_arrow(f"SELECT name FROM system.{table_and_condition}")["name"].to_pylist())
