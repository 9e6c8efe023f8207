"""How far a training is, and how long it still takes: an estimate with bounds, or nothing.

The SDK tells it of its own process, and whoever lists runs of all of them, by this one method. Steps have the
numbers that the program gives them, and so may count by tens, or go back.

The time of a step is measured from the end of one to the end of the next, so that checkpoints, validation and
waits between steps count. Times are gathered in at most 64 blocks of equally many steps; the first quarter of
them is left out as warm-up. What remains is the mean time of a block times the blocks that are left.

The bounds say where the end lies in four of five cases if the training goes on as it went: they hold the
scatter of the blocks to come and how well the mean is known, both widened by how much neighbouring blocks
resemble each other. They know nothing of what has not happened yet: a first validation, a GPU that throttles.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final, NamedTuple

MOST_BLOCKS: Final = 64
FEWEST_BLOCKS: Final = 6  # after the warm-up; with fewer nothing is said
# Student's t for 80 %, by degrees of freedom.
_T: Final = ((1, 3.08), (2, 1.89), (3, 1.64), (4, 1.53), (5, 1.48), (7, 1.42), (10, 1.37), (20, 1.33))
_T_MANY: Final = 1.29


class TimeLeft(NamedTuple):
    seconds: float
    low: float
    high: float


def steps_done(first: int, last: int) -> int:
    """Of a training whose lowest step has the number `first`, when `last` is done. One that does not begin
    with 1 is taken to count from 0: where its beginning is not known, that is off by one at most."""
    return last if first == 1 else last + 1


class Progress:
    """`first` is the lowest number of any step, where earlier lives of the program did some."""

    def __init__(self, total_steps: int | None, first: int | None = None) -> None:
        self.total_steps = total_steps
        self._first = first
        self._last: int | None = None
        self._blocks: list[float] = []  # seconds
        self._block_steps = 1
        self._open_steps = 0
        self._open_since_ns = 0

    def add(self, step: int, end_ns: int) -> None:
        self._first = step if self._first is None else min(self._first, step)
        last, self._last = self._last, step
        # The first step, which compiles and warms up, is not timed; nor is what it took to go back.
        if last is None or step <= last:
            self._open_since_ns = end_ns
            self._open_steps = 0
            return
        self._open_steps += step - last
        if self._open_steps >= self._block_steps:
            took_s = (end_ns - self._open_since_ns) / 1e9
            self._blocks.append(took_s * self._block_steps / self._open_steps)
            self._open_since_ns = end_ns
            self._open_steps = 0
            if len(self._blocks) == MOST_BLOCKS:
                pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
                self._blocks = [one + other for one, other in pairs]
                self._block_steps *= 2

    @property
    def done_steps(self) -> int | None:
        """Of the whole training, also what an earlier life of the program did."""
        if self._first is None or self._last is None:
            return None
        return steps_done(self._first, self._last)

    @property
    def ratio(self) -> float | None:
        """None while nobody said how many steps there are, or none is done."""
        done = self.done_steps
        if not self.total_steps or done is None:
            return None
        return min(1.0, done / self.total_steps)

    def time_left(self) -> TimeLeft | None:
        """None while too little is known."""
        done = self.done_steps
        if not self.total_steps or done is None:
            return None
        left = self.total_steps - done
        if left <= 0:
            return TimeLeft(0.0, 0.0, 0.0)
        blocks = self._blocks[len(self._blocks) // 4 :]
        n = len(blocks)
        if n < FEWEST_BLOCKS:
            return None
        mean = sum(blocks) / n
        to_come = left / self._block_steps
        spread = _long_run_variance(blocks, mean)
        deviation = math.sqrt(spread.variance * (to_come + to_come * to_come / n))
        reach = _t(spread.freedom) * deviation
        seconds = mean * to_come
        return TimeLeft(seconds, max(0.0, seconds - reach), seconds + reach)


class _Spread(NamedTuple):
    variance: float
    freedom: float  # how many independent blocks know it, less one


def _long_run_variance(blocks: list[float], mean: float) -> _Spread:
    """Of a block's time, widened for neighbours that resemble each other (a first-order autoregression)."""
    n = len(blocks)
    off = [block - mean for block in blocks]
    square = sum(one * one for one in off)
    if square == 0.0:
        return _Spread(0.0, n - 1)
    likeness = sum(one * other for one, other in pairwise(off)) / square
    likeness += (1 + 3 * likeness) / n  # few blocks make it look smaller than it is
    likeness = min(max(likeness, 0.0), 0.9)
    widened = (1 + likeness) / (1 - likeness)
    return _Spread(square / (n - 1) * widened, max(1.0, n / widened - 1))


def _t(freedom: float) -> float:
    return next((value for most, value in _T if freedom <= most), _T_MANY)
