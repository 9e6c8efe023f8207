"""How many steps of each minute were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.model.ledger_facts import StepMinutes


class LostMinutes(NamedTuple):
    """Of each row: how many of its steps, which of the losses it was, -1 where there is none, and whether its
    first steps are those that were lost."""

    steps: NDArray[np.int64]
    loss: NDArray[np.int64]
    is_front: NDArray[np.bool_]


def lost_minutes(minutes: StepMinutes, lost: Sequence[LostSteps]) -> LostMinutes:
    steps, loss = np.zeros(len(minutes), np.int64), np.full(len(minutes), -1, np.int64)
    is_front = np.zeros(len(minutes), np.bool_)
    number = {run: at for at, run in enumerate(minutes.runs)}
    # Rows are in the order of runs.
    edges = np.searchsorted(minutes.run, np.arange(len(minutes.runs) + 1, dtype=minutes.run.dtype)).tolist()
    for at, one in enumerate(lost):
        run = number.get(one.run)
        if run is None:
            continue
        first, end = edges[run], edges[run + 1]
        found, starts_with = _lost_of(minutes, slice(first, end), one, steps[first:end])
        if found.any():
            steps[first:end] += found
            loss[first:end][(found > 0) & (loss[first:end] < 0)] = at
            is_front[first:end] |= (found > 0) & starts_with
    return LostMinutes(steps, loss, is_front)


def _lost_of(
    minutes: StepMinutes, rows: slice, lost: LostSteps, before: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """How many steps of each row, where `before` are lost already, and whether the row starts with them.

    A step is lost by its number, and only if it ended in time: it may have been done again in the same
    minute. Numbers may have gaps, so of a minute it is the share of its numbers.
    """
    steps = minutes.steps[rows]
    first, last = minutes.first_step[rows], minutes.last_step[rows]
    lost_us = lost.lost_ms * 1000
    is_its = minutes.attempt[rows] == lost.attempt
    if lost.rank is not None:
        is_its &= minutes.rank[rows] == lost.rank
    if lost.since_ms is not None:
        is_its &= minutes.last_end_us[rows] > lost.since_ms * 1000
    is_its &= minutes.first_end_us[rows] <= lost_us
    goes_back = is_its & (minutes.last_end_us[rows] > lost_us)
    # With more steps than numbers it has gone back, and what it did before that is not meant here.
    has_gone_back = ~goes_back & (last - first + 1 < steps)
    since = np.where(has_gone_back, lost.first_step, np.maximum(first, lost.first_step))
    upto = np.where(goes_back, lost.last_step, np.minimum(last, lost.last_step))
    of = np.where(goes_back | has_gone_back, steps, last - first + 1)
    share = np.clip(upto - since + 1, 0, of) * steps // np.maximum(of, 1)
    # Those with higher numbers than any that was lost came after that.
    higher = np.where(goes_back, np.maximum(last - lost.last_step, 0), 0)
    found = np.where(is_its, np.clip(share, 0, np.maximum(steps - before - higher, 0)), 0)
    return found, goes_back | (~has_gone_back & (first >= lost.first_step))
