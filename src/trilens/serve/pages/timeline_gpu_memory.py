"""What GPUs said, remembered: of what is over nothing more comes, and a page asks every few seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.serve.pages.timeline_answers import GpuLayer
from trilens.serve.pages.timeline_gpus import GpuReadings, GpusRead, gpu_layer, gpu_readings
from trilens.serve.pages.timeline_grid import Grid

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.workload import WorkloadKey
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.pages.timeline_gpus import WorkloadGpus

_SETTLED_MS: Final = 120_000  # rules record every 30 s what is scraped every 30 s
_KEPT_S: Final = 300.0
_FRESH_S: Final = 3.0  # several who look at the same have the same answer
_WORKLOADS: Final = 12


@dataclass(slots=True)
class _Known:
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    grid: Grid | None = None
    read: GpusRead = field(default_factory=lambda: GpusRead(GpuLayer([], []), GpuReadings({}, {})))
    since_s: float = 0.0  # when all of it was read
    at_s: float = 0.0  # when the end of it was


class GpuMemory:
    """For one event loop."""

    def __init__(self, queries: OwnQueries, now_ms: Callable[[], int]) -> None:
        self._queries = queries
        self._now_ms = now_ms
        self._known: dict[tuple[WorkloadKey, int, int], _Known] = {}

    async def read(self, whose: WorkloadGpus, grid: Grid) -> GpusRead:
        """Raises TrilensError where nobody answers."""
        name = (whose.key, grid.width_ms, grid.slots // 8)
        known = self._known.pop(name, None) or _Known()
        self._known[name] = known  # the latest last
        for oldest in [*self._known][:-_WORKLOADS]:
            del self._known[oldest]
        async with known.asking:
            now_s = time.monotonic()
            if known.grid == grid and now_s - known.at_s < _FRESH_S:
                return known.read
            kept = self._kept_slots(known, grid, now_s)
            rest = Grid(grid.start_ms + kept * grid.width_ms, grid.width_ms, grid.slots - kept)
            told = await gpu_readings(self._queries, whose._replace(was_there=whose.was_there[kept:]), rest)
            if kept:
                assert known.grid is not None
                shift = (grid.start_ms - known.grid.start_ms) // grid.width_ms
                told = _joined(known.read.readings, slice(shift, shift + kept), told)
            else:
                known.since_s = now_s
            # Of a thousand GPUs that takes 10 ms, for which the loop would answer nobody.
            layer = await asyncio.to_thread(gpu_layer, told, grid)
            known.grid, known.read, known.at_s = grid, GpusRead(layer, told), now_s
            return known.read

    def _kept_slots(self, known: _Known, grid: Grid, now_s: float) -> int:
        """How many slots at the beginning of the grid are known and over."""
        before = known.grid
        if before is None or now_s - known.since_s > _KEPT_S or grid.start_ms < before.start_ms:
            return 0
        until_ms = min(before.end_ms, self._now_ms() - _SETTLED_MS)
        return max(0, min((until_ms - grid.start_ms) // grid.width_ms, grid.slots - 1))


def _joined(before: GpuReadings, slots: slice, after: GpuReadings) -> GpuReadings:
    rows = {uuid: row for row, uuid in enumerate(dict.fromkeys([*before.rows, *after.rows]))}
    figures = {}
    for name in dict.fromkeys([*before.figures, *after.figures]):
        parts = []
        for one, of_time in ((before, slots), (after, slice(None))):
            told = one.figures.get(name)
            width = of_time.stop - of_time.start if of_time.stop is not None else _slots(after)
            part = np.full((len(rows), width), np.nan)
            if told is not None and len(told):
                part[[rows[uuid] for uuid in one.rows]] = told[:, of_time]
            parts.append(part)
        figures[name] = np.concatenate(parts, axis=1)
    return GpuReadings(rows, figures)


def _slots(readings: GpuReadings) -> int:
    return int(next(iter(readings.figures.values())).shape[1])
