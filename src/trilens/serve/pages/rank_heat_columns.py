"""Columns of step times of all ranks. Those that are over are read once, and shared by all who look."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.serve.pages.rank_heat_matrix import choose, column_medians, matrix_of, steps_in_cell
from trilens.serve.pages.timeline_grid import Grid
from trilens.serve.pages.timeline_program import steps_counted

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.serve.pages.timeline_grid import Floats
    from trilens.store.step_grids import Ints, StepGrids

_SETTLED_MS: Final = 60_000  # until then ranks tell of their steps, in the ordinary course
_KEPT_S: Final = 300.0  # some tell later: an outage ends, a spool is sent
_RUNS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Milliseconds of each rank and their median, NaN where nothing was told; `attempt` is that of the last
    step in it."""

    step_ms: Floats
    own_ms: Floats
    step_median_ms: float
    own_median_ms: float
    attempt: int | None
    steps_known: int
    steps_read: int
    tells_waiting: bool


@dataclass(slots=True, eq=False)
class _Known:
    ranks: Ints
    until_s: float
    columns: dict[int, Column] = field(default_factory=dict)


class HeatColumns:
    """Thread-safe."""

    def __init__(self, grids: StepGrids) -> None:
        self._grids = grids
        self._lock = threading.Lock()
        self._known: dict[tuple[RunId, int], _Known] = {}

    def read(self, run: RunId, ranks: Ints, grid: Grid, now_ms: int, guard: QueryGuard) -> list[Column]:
        """One for each slot of the grid; `ranks` are in order."""
        known = self._of(run, ranks, grid.width_ms)
        starts = grid.edges_ms[:-1].tolist()
        there = 0
        while there < len(starts) and starts[there] in known.columns:
            there += 1
        found = [known.columns[start_ms] for start_ms in starts[:there]]
        if there < len(starts):
            rest = Grid(starts[there], grid.width_ms, grid.slots - there)
            found += self._read(run, ranks, rest, steps_in_cell(len(ranks), grid.slots), guard)
        for start_ms, column in zip(starts, found, strict=True):
            if start_ms + grid.width_ms < now_ms - _SETTLED_MS:
                known.columns[start_ms] = column
        return found

    def _of(self, run: RunId, ranks: Ints, width_ms: int) -> _Known:
        now_s = time.monotonic()
        with self._lock:
            known = self._known.get((run, width_ms))
            if known is None or known.until_s < now_s or not np.array_equal(known.ranks, ranks):
                known = _Known(ranks, now_s + _KEPT_S)
                self._known[run, width_ms] = known
                for oldest in [*self._known][:-_RUNS]:
                    del self._known[oldest]
        return known

    def _read(self, run: RunId, ranks: Ints, grid: Grid, in_cell: int, guard: QueryGuard) -> list[Column]:
        times = self._grids.course(run, grid.start_ms * 1000, grid.width_ms * 1000, grid.slots, guard).times
        chosen = choose(times, grid, in_cell)
        read = self._grids.steps(run, np.unique(times.step[chosen.places]).tolist(), guard=guard)
        steps = matrix_of(read, read.us, times, chosen, ranks, grid)
        own = matrix_of(read, read.us - read.sync_us, times, chosen, ranks, grid)
        step_medians, own_medians = column_medians(steps).tolist(), column_medians(own).tolist()
        column = (times.t_us // 1000 - grid.start_ms) // grid.width_ms
        last = np.searchsorted(column, np.arange(grid.slots), side="right")
        told = np.diff(last, prepend=0).tolist()
        attempts = [int(times.attempt[at - 1]) if n else None for at, n in zip(last, told, strict=True)]
        known = np.bincount(column, steps_counted(times), grid.slots).astype(np.int64).tolist()
        were_read = np.bincount(chosen.column, minlength=grid.slots).tolist()
        tells = bool(np.any(read.sync_us > 0))
        # Copies: a view would keep the whole matrix.
        return [
            Column(
                steps[:, i].copy(),
                own[:, i].copy(),
                step_medians[i],
                own_medians[i],
                attempts[i],
                known[i],
                were_read[i],
                tells,
            )
            for i in range(grid.slots)
        ]
