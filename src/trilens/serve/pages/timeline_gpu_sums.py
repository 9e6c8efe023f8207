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

_COUNT: Final = "trilens:workload_gpus:count"
_OVER: Final = {"mean": "avg", "least": "min", "most": "max"}  # and how a long slot is made of many moments


class GpuSums(NamedTuple):
    """A value for each slot, NaN where nothing was recorded; of each figure by `mean`, `least` and `most`."""

    gpus: Floats
    figures: Mapping[str, Mapping[str, Floats]]


async def gpu_sums(queries: OwnQueries, key: WorkloadKey, was_there: Bools, grid: Grid) -> GpuSums | None:
    """None where rules did not record them for most of the time: then each GPU is to be asked about."""
    asked = [_over_time(figure.summed, key, grid) for figure in FIGURES]
    count = f"{_COUNT}{{{of_workload(key)}}}"
    asked.append(count if grid.width_ms < LOOKBACK_MS else f"max_over_time({count}[{grid.width_ms}ms])")
    matrices = await asyncio.gather(*(queries.matrix(query, times_of(grid), ("over",)) for query in asked))
    *lines, counts = ({over: row for (over,), row in zip(*one, strict=True)} for one in matrices)
    gpus = counts.get("", grid.empty())
    if is_lacking(~np.isnan(gpus), was_there):
        return None
    return GpuSums(gpus, {figure.name: line for figure, line in zip(FIGURES, lines, strict=True) if line})


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
    if grid.width_ms < LOOKBACK_MS:
        return f"{metric}{{{labels}}}"
    return " or ".join(
        f'{how}_over_time({metric}{{{labels}, over="{over}"}}[{grid.width_ms}ms])'
        for over, how in _OVER.items()
    )
