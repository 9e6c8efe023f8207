"""How long a run may be without the end of a step before it counts as stalled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.ledger.lives.told_lives import ToldLives

LEAST_US: Final = 60_000_000  # a minute, so that no stall lies within a row of minutes
_STEPS: Final = 5
_LONGEST: Final = (1 << 42) - 1  # of a pace, to sort by run and pace at once
_TOGETHER_US: Final = 60_000_000  # ranks that stop within this stop for the same reason


def paces(told: ToldLives) -> NDArray[np.int64]:
    """Of each run, the median time from one step's end to the next, of the steps read and, once for each
    rank, of those just before; of what comes next where there are no others. 0 where nothing is known."""
    minutes = told.minutes
    alone = minutes.steps < 2
    pace = np.where(
        alone,
        minutes.first_end_us - told.begin_us,
        (minutes.last_end_us - minutes.first_end_us) // np.maximum(minutes.steps - 1, 1),
    )
    had, comes = told.before_pace >= 0, told.after >= 0
    found = _medians(
        np.concatenate((told.row_run, told.run[had])),
        np.concatenate((pace, told.before_pace[had])),
        np.concatenate((minutes.steps, np.ones(int(had.sum()), np.int64))),
        len(told.runs),
    )
    once = np.ones(int(comes.sum()), np.int64)
    of_later = _medians(told.run[comes], told.after_pace[comes], once, len(told.runs))
    return np.where(found > 0, found, of_later)


def patience(pace: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(_STEPS * pace, LEAST_US)


def _medians(
    run: NDArray[np.int64], pace: NDArray[np.int64], weight: NDArray[np.int64], runs: int
) -> NDArray[np.int64]:
    """The lower of the two in the middle."""
    medians = np.zeros(runs, np.int64)
    if not len(run):
        return medians
    order = np.argsort(run * (_LONGEST + 1) + np.clip(pace, 0, _LONGEST))
    run, pace, running = run[order], pace[order], np.cumsum(weight[order])
    ends = np.append(np.flatnonzero(run[1:] != run[:-1]), len(run) - 1)
    upto = running[ends]
    before = np.concatenate(([0], upto[:-1]))
    medians[run[ends]] = pace[np.searchsorted(running, before + (upto - before + 1) // 2)]
    return medians


def first_together(runs: Sequence[int], times_us: Sequence[int]) -> list[int]:
    """Of each, which one of its run it belongs to: ranks that stop, or start, within a minute do it together,
    and are told of as one since the first of them."""
    order = sorted(range(len(runs)), key=lambda at: (runs[at], times_us[at]))
    leaders = [0] * len(runs)
    leader = -1
    for at in order:
        if leader < 0 or runs[at] != runs[leader] or times_us[at] - times_us[leader] > _TOGETHER_US:
            leader = at
        leaders[at] = leader
    return leaders
