"""What the GPUs of a workload said together, as rules recorded it: of thousands of them a few series."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.serve.pages.timeline_answers import FigureLine, GpuLayer
from trilens.serve.pages.timeline_gpus import FIGURES, LOOKBACK_MS, is_lacking, of_workload, times_of
from trilens.serve.pages.timeline_grid import told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.workload import WorkloadKey
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.pages.timeline_gpus import Bools
    from trilens.serve.pages.timeline_grid import Floats, Grid

    _Lines = dict[str, dict[str, Floats]]  # by metric, then by `over`

_COUNT: Final = "trilens:workload_gpus:count"
_METRICS: Final = (*(figure.summed for figure in FIGURES), _COUNT)
_OVER: Final = {"mean": "avg", "least": "min", "most": "max"}  # and how a long slot is made of many moments


class GpuSums(NamedTuple):
    """A value for each slot, NaN where nothing was recorded; of each figure by `mean`, `least` and `most`."""

    gpus: Floats
    figures: Mapping[str, Mapping[str, Floats]]


async def gpu_sums(queries: OwnQueries, key: WorkloadKey, was_there: Bools, grid: Grid) -> GpuSums | None:
    """None where rules did not record them for most of the time: then each GPU is to be asked about."""
    read = _at_moments if grid.width_ms < LOOKBACK_MS else _over_slots
    lines = await read(queries, key, grid)
    gpus = lines[_COUNT].get("", grid.empty())
    if is_lacking(~np.isnan(gpus), was_there):
        return None
    return GpuSums(gpus, {one.name: lines[one.summed] for one in FIGURES if lines[one.summed]})


async def _at_moments(queries: OwnQueries, key: WorkloadKey, grid: Grid) -> _Lines:
    """In one query: what each takes to be planned and looked up is most of it."""
    query = f'{{__name__=~"{"|".join(_METRICS)}", {of_workload(key)}}}'
    found = await queries.matrix(query, times_of(grid), ("__name__", "over"))
    lines: _Lines = {metric: {} for metric in _METRICS}
    for (metric, over), row in zip(*found, strict=True):
        lines[metric][over] = row
    return lines


async def _over_slots(queries: OwnQueries, key: WorkloadKey, grid: Grid) -> _Lines:
    """Functions over time leave the names out, by which they would be told apart."""
    count = f"max_over_time({_COUNT}{{{of_workload(key)}}}[{grid.width_ms}ms])"
    asked = [*(_over_time(figure.summed, key, grid) for figure in FIGURES), count]
    matrices = await asyncio.gather(*(queries.matrix(query, times_of(grid), ("over",)) for query in asked))
    return {
        metric: {over: row for (over,), row in zip(*one, strict=True)}
        for metric, one in zip(_METRICS, matrices, strict=True)
    }


def summed_layer(sums: GpuSums) -> GpuLayer:
    nothing = np.full(len(sums.gpus), np.nan)
    return GpuLayer(
        np.nan_to_num(sums.gpus).astype(np.int64).tolist(),
        [
            FigureLine(
                figure.name,
                figure.unit,
                *(told(sums.figures[figure.name].get(over, nothing), 4) for over in _OVER),
            )
            for figure in FIGURES
            if figure.name in sums.figures
        ],
    )


def _over_time(metric: str, key: WorkloadKey, grid: Grid) -> str:
    labels = of_workload(key)
    return " or ".join(
        f'{how}_over_time({metric}{{{labels}, over="{over}"}}[{grid.width_ms}ms])'
        for over, how in _OVER.items()
    )
