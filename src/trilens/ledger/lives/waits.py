"""Times in which no step of a rank ended for longer than its run's patience: before the first step of a
minute, and after the last one that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilens.ledger.lives.minute_parts import phases_left
from trilens.ledger.lives.stalls import LEAST_US, first_together
from trilens.ledger.lives.told_lives import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.ledger.lives.pauses import Pauses
    from trilens.ledger.lives.told_lives import ToldLives


@dataclass(frozen=True, slots=True)
class Wait:
    """Inside the span of time that is booked. `since_us` and `step` are those of the first rank of the run
    that stopped; `is_first` is one before the end of a life's first step, which may load and compile."""

    from_us: int
    to_us: int
    saved_us: int
    validated_us: int
    since_us: int
    step: int | None
    is_first: bool


@dataclass(frozen=True, slots=True)
class LongWaits:
    is_before: NDArray[np.bool_]  # of each row
    is_after: NDArray[np.bool_]  # of each life
    before: dict[int, Wait]
    after: dict[int, Wait]


def long_waits(told: ToldLives, patience: NDArray[np.int64], saving: Pauses, pausing: Pauses) -> LongWaits:
    """`patience` is that of each life's run. Checkpoints and validations in between do not count."""
    minutes, last_end = told.minutes, told.last_end
    rows = np.flatnonzero(minutes.first_end_us - told.begin_us > LEAST_US)
    in_phase = _checkpoint_phase(told, rows)
    of_rows = told.life[rows]
    is_first = (rows == told.first_row[of_rows]) & (told.before[of_rows] == NEVER)

    begun = np.where(last_end >= 0, last_end, np.where(told.after >= 0, told.after_start, NEVER))
    until = np.where(told.after >= 0, told.after, told.end_us)
    is_silent = (begun >= 0) & (until - begun > LEAST_US) & (told.to_us > begun)
    lives = np.flatnonzero(is_silent & ~_has_more_to_tell(told))

    life = np.concatenate((of_rows, lives))
    from_us = np.concatenate((told.begin_us[rows], begun[lives]))
    to_us = np.concatenate((minutes.first_end_us[rows], until[lives]))
    in_phase = np.concatenate((in_phase, np.zeros(len(lives), np.int64)))
    is_first = np.concatenate((is_first, last_end[lives] == NEVER))
    step = np.concatenate((_steps_before(told, rows), _last_steps(told, lives)))

    waited = to_us - from_us - np.maximum(pausing.inside(told.run[life], from_us, to_us), in_phase)
    long = np.flatnonzero(waited > patience[life])
    is_before, is_after = np.zeros(len(minutes), np.bool_), np.zeros(len(told.keys), np.bool_)
    is_before[rows[long[long < len(rows)]]] = True
    is_after[lives[long[long >= len(rows)] - len(rows)]] = True

    life, step, is_first = life[long], step[long], is_first[long]
    waits = _waits(told, life, from_us[long], to_us[long], in_phase[long], saving, pausing, step, is_first)
    places = np.concatenate((rows, lives))[long].tolist()
    count = int((long < len(rows)).sum())
    return LongWaits(
        is_before,
        is_after,
        dict(zip(places[:count], waits[:count], strict=True)),
        dict(zip(places[count:], waits[count:], strict=True)),
    )


def _has_more_to_tell(told: ToldLives) -> NDArray[np.bool_]:
    """Its heartbeat is further than its records, which are on their way: a server that was away, or has just
    begun, gets them after that. The step in progress is one further in any case."""
    lives = np.arange(len(told.keys))
    heard = np.array([NEVER if one.step is None else one.step for one in told.processes], np.int64)
    is_behind: NDArray[np.bool_] = (
        ~told.is_over & (told.after == NEVER) & (heard > _last_steps(told, lives) + 1)
    )
    return is_behind


def _checkpoint_phase(told: ToldLives, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of the first step of these minutes, as far as their sums tell it."""
    minutes = told.minutes
    first_us = (minutes.first_end_us - minutes.first_start_us)[rows]
    others_us = np.maximum(minutes.step_us[rows] - first_us, 0)
    room_us = (minutes.last_end_us - minutes.first_end_us)[rows]
    phase_us = minutes.checkpoint_us[rows]
    return phase_us - phases_left(phase_us, minutes.steps[rows], first_us, others_us, room_us)


def _steps_before(told: ToldLives, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    is_first = rows == told.first_row[told.life[rows]]
    return np.where(is_first, told.before_step[told.life[rows]], told.minutes.last_step[rows - 1])


def _last_steps(told: ToldLives, lives: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = told.before_step[lives].copy()
    has_rows = told.end_row[lives] > told.first_row[lives]
    steps[has_rows] = told.minutes.last_step[told.end_row[lives][has_rows] - 1]
    return steps


def _waits(
    told: ToldLives,
    life: NDArray[np.int64],
    from_us: NDArray[np.int64],
    to_us: NDArray[np.int64],
    in_phase: NDArray[np.int64],
    saving: Pauses,
    pausing: Pauses,
    step: NDArray[np.int64],
    is_first: NDArray[np.bool_],
) -> list[Wait]:
    run = told.run[life]
    begin = np.clip(from_us, told.from_us[life], told.to_us[life])
    end = np.clip(to_us, begin, told.to_us[life])
    saved, paused = saving.inside(run, begin, end), pausing.inside(run, begin, end)
    whole_ms = np.maximum((to_us - from_us) // 1000, 1)
    phase = in_phase // 1000 * ((end - begin) // 1000) // whole_ms * 1000
    validated = paused - saved
    saved = np.minimum(np.maximum(saved, phase), end - begin - validated)
    since, steps = from_us.tolist(), step.tolist()
    # Who has not come to its first step does not stop together with others.
    leaders = first_together((2 * run + is_first).tolist(), since)
    return [
        Wait(own_from, own_to, own_saved, own_validated, since[leader], _number(steps[leader]), own_first)
        for own_from, own_to, own_saved, own_validated, leader, own_first in zip(
            begin.tolist(),
            end.tolist(),
            saved.tolist(),
            validated.tolist(),
            leaders,
            is_first.tolist(),
            strict=True,
        )
    ]


def _number(step: int) -> int | None:
    return step if step >= 0 else None
