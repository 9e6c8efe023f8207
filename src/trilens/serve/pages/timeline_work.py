"""What steps took in. Of steps that ranks have told of by now it is kept: it hardly changes any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.serve.pages.timeline_grid import Floats
    from trilens.store.step_grids import RunSeen, StepGrids, StepTimes

    _Told = dict[tuple[int, int], tuple[float, float]]  # by step and attempt: samples and tokens

_SETTLED_MS: Final = 60_000  # until then ranks tell of their steps, in the ordinary course
_RUNS: Final = 16
_UNKNOWN: Final = (float("nan"), float("nan"))


class WorkOfSteps:
    """Thread-safe. Of the runs that were asked for last."""

    def __init__(self, grids: StepGrids) -> None:
        self._grids = grids
        self._lock = threading.Lock()
        self._known: dict[RunId, _Told] = {}

    def of(
        self, run: RunSeen, times: StepTimes, places: NDArray[np.intp], guard: QueryGuard
    ) -> tuple[Floats, Floats]:
        """Samples and tokens of one rank at these places among the times, the mean of the ranks that told;
        NaN where none did."""
        wanted = [*zip(times.step[places].tolist(), times.attempt[places].tolist(), strict=True)]
        known = self._known.get(run.run, {})
        found = {key: known[key] for key in wanted if key in known}
        if missing := sorted({step for step, attempt in wanted if (step, attempt) not in found}):
            read = self._grids.work(run.run, missing, guard)
            keys = zip(read.step.tolist(), read.attempt.tolist(), strict=True)
            told = zip(read.samples.tolist(), read.tokens.tolist(), strict=True)
            found |= dict(zip(keys, told, strict=True))
        is_settled = times.t_us[places] < (run.heard_ms - _SETTLED_MS) * 1000
        settled = {key for key, is_so in zip(wanted, is_settled.tolist(), strict=True) if is_so}
        with self._lock:
            self._known.pop(run.run, None)
            self._known[run.run] = {key: told for key, told in found.items() if key in settled}
            for oldest in [*self._known][:-_RUNS]:
                del self._known[oldest]
        samples, tokens = np.array([found.get(key, _UNKNOWN) for key in wanted]).reshape(-1, 2).T
        return samples, tokens
