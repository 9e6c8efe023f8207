"""How regularly a run makes its steps, learnt from itself: how long one takes, and which pauses it has.

A pause that nobody announces (a checkpoint, a validation) is known when it has come before: at the same
distance in steps, or in time. Before it has, the only hints are where it comes, as programs save and validate
at round numbers of steps, and whether this program could have announced it at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.detect.scene import Steps

FIRST_STEP_MS: Final = 30 * 60_000  # loading, compiling: what the SDK's own watchdog allows as well
FIRST_STEPS_MS: Final = 5 * 60_000  # kernels are tuned, graphs are captured, a second shape is compiled
LEAST_MS: Final = 10_000  # shorter than this, anything may be in the way for once
EARLY_LEAST_MS: Final = 30_000
POSSIBLE_MS: Final = 120_000  # for a pause of which nothing is known

_FIRST: Final = 5  # steps that say nothing of those to come
_SETTLED: Final = 20  # steps after which a run is known
_SLOW_QUANTILE: Final = 0.97
_KEPT: Final = 256  # intervals
_MOST_PAUSES: Final = 32
_PAUSE_FACTOR: Final = 3.0  # of the median, for an interval to be a pause
_PAUSE_LEAST_MS: Final = 2_000  # and so much longer than it
_LONGEST_MS: Final = 10 * 60_000  # what took longer was a stall that ended, and no pause
_LEARN_EVERY: Final = 8  # steps: medians of many runs cost time
_ROUND: Final = (100, 500, 1000)
_IRREGULAR: Final = 3  # pauses of no period within `_KEPT` steps: they are the run's way


class Pause(NamedTuple):
    step: int  # that ended late
    begin_ms: int  # when the one before had ended
    ms: float


class Patience(NamedTuple):
    """How long no step may end now, and why so long."""

    ms: float
    why: str
    is_settled: bool  # the run is known well enough to be sure
    for_pause: Patience | None = None  # longer, unless something tells that this is not the pause it may be


class Rhythm:
    """Of one life of a run."""

    def __init__(self, before: Rhythm | None = None) -> None:
        """`before` is the life before this one: what it paused for, this one will."""
        self._intervals = np.empty(0)
        self._pauses: list[Pause] = list(before._pauses) if before is not None else []
        self._learnt_ms = -1
        self._first_step: int | None = None
        self.known = 0  # intervals since its beginning
        self.median_ms = float("nan")
        self._slow_ms = float("nan")
        self._lately_ms = 0.0

    def learn(self, steps: Steps) -> None:
        count = len(steps)
        if count < 2:
            return
        self._lately_ms = _lately_ms(steps)
        first = int(np.searchsorted(steps.end_ms, self._learnt_ms, side="right"))
        if count - first < _LEARN_EVERY and self.known >= _SETTLED:
            return
        first = max(first - 1, 0)  # the interval from the last one that was learnt
        ends, numbers = steps.end_ms[first:], steps.step[first:]
        if len(ends) < 2:
            return
        if self._first_step is None:
            self._first_step = int(numbers[0])
        apart = np.maximum(np.diff(numbers), 1)  # metrics show one in several
        took = np.maximum(np.diff(ends) / apart, 0.0)
        self._learnt_ms = int(ends[-1])
        self.known += len(took)
        recent = np.concatenate([self._intervals, took])[-_KEPT:]
        in_order = np.sort(recent)
        self.median_ms = median = float(in_order[len(in_order) // 2])
        is_pause = np.diff(ends) - (apart - 1) * median > _pause_ms(median)
        if self.known >= _FIRST:
            for at in np.flatnonzero(is_pause).tolist():
                self._pauses.append(
                    Pause(int(numbers[at + 1]), int(ends[at]), float(ends[at + 1] - ends[at]))
                )
            del self._pauses[:-_MOST_PAUSES]
        self._intervals = recent
        ordinary = int(np.searchsorted(in_order, _pause_ms(median), side="right"))
        self._slow_ms = float(in_order[round(_SLOW_QUANTILE * (ordinary - 1))])

    def patience(self, last_step: int, last_end_ms: int, *, is_announcing: bool = True) -> Patience:
        """After this step. `is_announcing`: the program says when it saves or validates."""
        if self.known == 0:
            return Patience(FIRST_STEP_MS, "the first step may take long", is_settled=False)
        if self.known < _FIRST:
            return Patience(FIRST_STEPS_MS, "the first steps may take long", is_settled=False)
        # A run that has become slower is slow, and does not stall at each step.
        median, slow = max(self.median_ms, self._lately_ms), max(self._slow_ms, self._lately_ms)
        why = f"steps take {median / 1000:.1f} s"
        if self.known < _SETTLED:
            ordinary = Patience(max(EARLY_LEAST_MS, 5 * median, 3 * slow), why, is_settled=False)
        else:
            ordinary = Patience(max(LEAST_MS, 2 * median + 5_000, 2 * slow), why, is_settled=True)
            due = self._due(last_step + 1, last_end_ms)
            if due is not None:
                return due if due.ms > ordinary.ms else ordinary
        possible = self._possible(last_step + 1, is_announcing)
        if possible is not None and possible.ms > ordinary.ms:
            return ordinary._replace(for_pause=possible)
        return ordinary

    def _due(self, next_step: int, last_end_ms: int) -> Patience | None:
        """A pause as those before."""
        recent = self._pauses
        if not recent:
            return None
        longest = max(pause.ms for pause in recent)
        allowed = 2 * longest + 5_000
        if _is_next([pause.step for pause in recent], next_step):
            return Patience(allowed, "it pauses after so many steps, as before", is_settled=True)
        times = [pause.begin_ms for pause in recent]
        if _is_next(times, last_end_ms, slack=max(3 * self.median_ms, 0.05 * _period(times))):
            return Patience(allowed, "it pauses after so long, as before", is_settled=True)
        lately = [pause for pause in recent if pause.step > next_step - _KEPT]
        if len(lately) >= _IRREGULAR and not _is_regular([pause.step for pause in lately]):
            return Patience(1.5 * longest, "it has paused for so long before", is_settled=True)
        return None

    def _possible(self, next_step: int, is_announcing: bool) -> Patience | None:
        """A pause of which nothing is known: nobody says when this program pauses, or no such round number
        has been passed yet without one."""
        if not is_announcing:
            longest = max((pause.ms for pause in self._pauses if pause.ms <= _LONGEST_MS), default=None)
            allowed = POSSIBLE_MS if longest is None else 2 * longest + 5_000
            return Patience(allowed, "its program does not say when it saves", is_settled=False)
        assert self._first_step is not None
        for number in _ROUND:
            off = min(next_step % number, -next_step % number)
            if off <= 1 and next_step - self._first_step <= number + 1:
                return Patience(POSSIBLE_MS, f"many programs save after {number} steps", is_settled=False)
        return None


def _lately_ms(steps: Steps) -> float:
    """What at least two of the last three steps took; 0 where there are fewer."""
    ends, numbers = steps.end_ms[-4:].tolist(), steps.step[-4:].tolist()
    if len(ends) < 4:
        return 0.0
    took = [(ends[at + 1] - ends[at]) / max(numbers[at + 1] - numbers[at], 1) for at in range(3)]
    return float(sorted(took)[1])


def _pause_ms(median: float) -> float:
    """What is longer is a pause, and no step."""
    return max(_PAUSE_FACTOR * median, median + _PAUSE_LEAST_MS)


def _period(at: Sequence[int]) -> float:
    return float(np.median(np.diff(at[-5:]))) if len(at) > 1 else 0.0


def _is_regular(at: Sequence[int]) -> bool:
    apart = np.diff(at[-5:])
    period = float(np.median(apart))
    return bool(np.all(np.abs(apart - period) <= max(1.0, 0.05 * period)))


def _is_next(at: Sequence[int], now: float, slack: float = 1.0) -> bool:
    """Whether one is due by the distance of those before; of a single one, by its distance from 0."""
    if len(at) == 1:
        period = float(at[0])
        if slack != 1.0 or period < _FIRST:
            return False  # a time has no beginning to be measured from
        times = round(now / period)
        return times >= 2 and abs(now - times * period) <= times
    period = _period(at)
    if period <= 2 * slack or not _is_regular(at):
        return False
    times = round((now - at[-1]) / period)
    return times >= 1 and abs(now - at[-1] - times * period) <= slack
