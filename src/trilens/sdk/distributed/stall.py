"""When steps have stopped for too long: the arithmetic of the watchdog, without its thread."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

TIMES_SLOWEST: Final = 10  # a step so many times as long as the slow ones of late is not just a slow step
LEAST_S: Final = 30.0
FIRST_STEP_S: Final = 1800.0  # loading, compiling, warming up caches
SLOW_PHASE_S: Final = 1800.0
SLOW_PHASES: Final = frozenset({"checkpoint", "validation", "evaluation", "eval", "compile"})
_RECENT: Final = 128


class Moment(NamedTuple):
    """How a program stands, as the watchdog sees it from time to time."""

    now_s: float
    steps_done: int
    last_ended_s: float | None  # None: no step has ended yet
    phase: str | None


class Limits(NamedTuple):
    least_s: float = LEAST_S
    first_step_s: float = FIRST_STEP_S
    slow_phase_s: float = SLOW_PHASE_S


class StepClock:
    """Learns how long steps take, and says how long to wait for the next one."""

    def __init__(self, began_s: float, limits: Limits) -> None:
        self._limits = limits
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._steps_done = 0
        self._moved_s = began_s  # when the last step ended, or it all began
        self._slow_phase_s: float | None = None  # when a slow phase was last seen

    def see(self, moment: Moment) -> bool:
        """Whether steps have gone on since it last looked."""
        if moment.phase in SLOW_PHASES:
            self._slow_phase_s = moment.now_s
        if moment.steps_done == self._steps_done or moment.last_ended_s is None:
            return False
        passed_s = moment.last_ended_s - self._moved_s
        if self._steps_done:
            self._recent.append(passed_s / (moment.steps_done - self._steps_done))
        self._steps_done = moment.steps_done
        self._moved_s = moment.last_ended_s
        return True

    def waiting_s(self, now_s: float) -> float:
        return now_s - self._moved_s

    def limit_s(self) -> float:
        """How long the next step may take."""
        if not self._steps_done:
            return max(self._limits.first_step_s, self._limits.least_s)
        slowest_s = sorted(self._recent)[int(0.99 * len(self._recent))] if self._recent else 0.0
        usual_s = max(self._limits.least_s, TIMES_SLOWEST * slowest_s)
        in_slow_phase = self._slow_phase_s is not None and self._slow_phase_s >= self._moved_s
        return max(usual_s, self._limits.slow_phase_s) if in_slow_phase else usual_s

    def is_stalled(self, now_s: float) -> bool:
        return self.waiting_s(now_s) > self.limit_s()
