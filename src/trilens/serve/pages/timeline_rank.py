"""The steps of one rank over time. Those that were read are kept: what a rank told of a step stays."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from trilens.model.errors import RequestError
from trilens.serve.pages.timeline_program import some_steps

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.serve.pages.timeline_grid import Floats, Grid
    from trilens.serve.params import Params
    from trilens.store.step_grids import StepGrids, StepTimes

    _Told = dict[tuple[int, int], tuple[int, int]]  # by step and attempt: the microseconds, and of waiting

_STEPS: Final = 160
_RANKS: Final = 16


class RankSteps:
    """Thread-safe. Of the ranks that were asked for last."""

    def __init__(self, grids: StepGrids) -> None:
        self._grids = grids
        self._lock = threading.Lock()
        self._known: dict[tuple[RunId, int], _Told] = {}

    def lines(
        self, run: RunId, rank: int, times: StepTimes, grid: Grid, guard: QueryGuard
    ) -> tuple[Floats, Floats]:
        """Milliseconds of a step in each slot, with the waiting for others and without."""
        step_ms, own_ms = grid.empty(), grid.empty()
        if not len(times):
            return step_ms, own_ms
        places = some_steps(times, _STEPS)
        wanted = [*zip(times.step[places].tolist(), times.attempt[places].tolist(), strict=True)]
        told = self._told(run, rank, wanted, guard)
        slots = (times.t_us[places] // 1000 - grid.start_ms) // grid.width_ms
        for key, slot in zip(wanted, slots.tolist(), strict=True):
            if (one := told.get(key)) is not None:
                step_ms[slot], own_ms[slot] = one[0] / 1000, (one[0] - one[1]) / 1000
        return step_ms, own_ms

    def _told(self, run: RunId, rank: int, wanted: list[tuple[int, int]], guard: QueryGuard) -> _Told:
        known = self._known.get((run, rank), {})
        missing = sorted({step for step, attempt in wanted if (step, attempt) not in known})
        found = {key: known[key] for key in wanted if key in known}
        if missing:
            read = self._grids.steps(run, missing, rank=rank, guard=guard)
            keys = zip(read.step.tolist(), read.attempt.tolist(), strict=True)
            found |= dict(zip(keys, zip(read.us.tolist(), read.sync_us.tolist(), strict=True), strict=True))
        with self._lock:
            self._known.pop((run, rank), None)
            self._known[run, rank] = found
            for oldest in [*self._known][:-_RANKS]:
                del self._known[oldest]
        return found


def asked_rank(params: Params) -> int | None:
    written = params.first("rank")
    if not written:
        return None
    if not written.isascii() or not written.isdecimal() or len(written) > 9:
        raise RequestError(f'invalid parameter "rank": {written!r} is no rank')
    return int(written)
