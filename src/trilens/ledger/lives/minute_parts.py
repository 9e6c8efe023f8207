"""What the steps of a minute waited for, and how much of it was a checkpoint.

Of a minute only sums are known. Its time runs from the end of the step before it to the end of its last step;
where a stall lies before its first step, from the end of that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.ledger.lives.pauses import Pauses
    from trilens.ledger.lives.told_lives import ToldLives
    from trilens.model.ledger_facts import StepMinutes


@dataclass(frozen=True, slots=True)
class MinuteParts:
    """Microseconds, of each row: the rest of `from_us` to `to_us` is productive. They lie inside the span of
    time that is booked."""

    from_us: NDArray[np.int64]
    to_us: NDArray[np.int64]
    data: NDArray[np.int64]
    sync: NDArray[np.int64]
    checkpoint: NDArray[np.int64]


def phases_left(
    phase_us: NDArray[np.int64],
    steps: NDArray[np.int64],
    first_us: NDArray[np.int64],
    others_us: NDArray[np.int64],
    room_us: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Of a minute whose first step took very long: how much of a phase belongs to the others.

    Where it is more than these have room for, what the first step took longer than they did was in it.
    Without that, all steps are alike.
    """
    longer = first_us - others_us // np.maximum(steps - 1, 1)
    alike = np.where(phase_us > room_us, phase_us - longer, phase_us)
    return np.clip(alike * (steps - 1) // np.maximum(steps, 1), 0, room_us)


def minute_parts(
    told: ToldLives, is_cut: NDArray[np.bool_], pace: NDArray[np.int64], saving: Pauses
) -> MinuteParts:
    """`is_cut`: without the time until the end of the first step. `pace` is that of each run."""
    minutes = told.minutes
    begin, end = told.begin_us, minutes.last_end_us
    steps, step_us, in_steps = minutes.steps, minutes.step_us, minutes.checkpoint_us
    data, sync = _waited(minutes)
    cut = np.flatnonzero(is_cut)
    if len(cut):
        begin = _replaced(begin, cut, minutes.first_end_us[cut])
        first_us = (minutes.first_end_us - minutes.first_start_us)[cut]
        others_us = np.maximum(step_us[cut] - first_us, 0)
        room_us = (end - begin)[cut]
        data, sync, in_steps = (
            _replaced(phase, cut, phases_left(phase[cut], steps[cut], first_us, others_us, room_us))
            for phase in (data, sync, in_steps)
        )
        step_us, steps = _replaced(step_us, cut, others_us), _replaced(steps, cut, steps[cut] - 1)
    length = end - begin
    checkpoint = in_steps
    told_inside = saving.inside(told.row_run, begin, end)
    rows = np.flatnonzero(told_inside)
    if len(rows):
        inside = told_inside[rows]
        # Between steps it is surely waited for; beside steps only if they took longer by most of it.
        between = np.minimum(inside, np.maximum(length[rows] - step_us[rows], 0))
        left = inside - between
        longer = length[rows] - steps[rows] * pace[told.row_run[rows]] - between
        within = np.where(2 * longer >= left, np.clip(longer, 0, left), 0)
        # A phase of that name may be the same checkpoint, told once more.
        in_phase = in_steps[rows]
        checkpoint = _replaced(checkpoint, rows, between + np.maximum(within, in_phase))
        # Who waits for the rank that writes it waits in its sync.
        waited, in_sync = sync[rows], np.maximum(within - in_phase, 0)
        sync = _replaced(sync, rows, np.where(waited >= in_sync, waited - in_sync, waited))
    checkpoint = np.clip(checkpoint, 0, length)
    rest = length - checkpoint
    data = np.clip(data, 0, rest)
    rest -= data
    return _clipped(told, MinuteParts(begin, end, data, np.clip(sync, 0, rest), checkpoint))


def _waited(minutes: StepMinutes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For data, and for other ranks: by the GPU's own time where events told it. A loader that is late while
    the GPU still computes costs nothing."""
    has_device = minutes.device_us > 0
    if not has_device.any():
        return minutes.data_us, minutes.sync_us
    idle = np.maximum(minutes.step_us - minutes.device_us, 0)
    return (
        np.where(has_device, np.minimum(minutes.data_us, idle), minutes.data_us),
        np.where(has_device, minutes.device_sync_us, minutes.sync_us),
    )


def _replaced(column: NDArray[np.int64], rows: NDArray[np.int64], by: NDArray[np.int64]) -> NDArray[np.int64]:
    column = column.copy()
    column[rows] = by
    return column


def _clipped(told: ToldLives, parts: MinuteParts) -> MinuteParts:
    """Of the minutes that reach beyond a life or the span of time, as much as lies inside."""
    low, high = told.from_us[told.life], told.to_us[told.life]
    rows = np.flatnonzero((parts.from_us < low) | (parts.to_us > high))
    if not len(rows):
        return parts
    begin = np.clip(parts.from_us[rows], low[rows], high[rows])
    end = np.clip(parts.to_us[rows], low[rows], high[rows])
    # In milliseconds: a step may last for days, and 64 bits do not hold the product of such microseconds.
    inside = (end - begin) // 1000
    whole = np.maximum((parts.to_us - parts.from_us)[rows] // 1000, 1)
    data, sync, checkpoint = (
        _replaced(column, rows, column[rows] // 1000 * inside // whole * 1000)
        for column in (parts.data, parts.sync, parts.checkpoint)
    )
    return MinuteParts(
        _replaced(parts.from_us, rows, begin), _replaced(parts.to_us, rows, end), data, sync, checkpoint
    )
