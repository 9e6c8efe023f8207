"""How long a training still takes: the bounds hold about as often as they say."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from trilens.model.progress import MOST_BLOCKS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS = 2_000
RUNS = 80


def even(dice: random.Random) -> Iterator[float]:
    while True:
        yield 0.1 * dice.lognormvariate(0, 0.3)


def drifting(dice: random.Random) -> Iterator[float]:
    """Slow minutes and fast minutes: a step resembles the one before."""
    level = 0.0
    while True:
        level = 0.95 * level + dice.gauss(0, 0.05)
        yield 0.1 * math.exp(level)


def with_outliers(dice: random.Random) -> Iterator[float]:
    while True:
        yield 0.1 * dice.paretovariate(2.5)


def warming_up(dice: random.Random) -> Iterator[float]:
    yield from (3.0 for _ in range(20))
    yield from even(dice)


def with_checkpoints(dice: random.Random) -> Iterator[float]:
    while True:
        yield from (0.1 * dice.lognormvariate(0, 0.1) for _ in range(100))
        yield 2.0


def share_within(times: Callable[[random.Random], Iterator[float]], done: int) -> float:
    """How often the truth lies between the bounds."""
    hits = 0
    for seed in range(RUNS):
        source = times(random.Random(seed))
        taken = [next(source) for _ in range(STEPS)]
        progress, now = Progress(STEPS), 0.0
        for step in range(done):
            now += taken[step]
            progress.add(step, round(now * 1e9))
        left = progress.time_left()
        assert left is not None
        hits += left.low <= sum(taken[done:]) <= left.high
    return hits / RUNS


@pytest.mark.parametrize("times", [even, drifting, with_outliers, warming_up], ids=lambda f: f.__name__)
@pytest.mark.parametrize("done", [300, 1_000])
def test_the_bounds_hold_four_times_of_five(
    times: Callable[[random.Random], Iterator[float]], done: int
) -> None:
    assert 0.7 <= share_within(times, done) <= 0.95


def test_pauses_at_even_distance_make_the_bounds_wide_rather_than_wrong() -> None:
    assert share_within(with_checkpoints, 1_000) >= 0.8


def told(progress: Progress, steps: int, *, first: int = 0, every_ns: int = 10**9) -> None:
    for i in range(steps):
        progress.add(first + i, i * every_ns)


def test_nothing_is_said_before_there_is_something_to_say() -> None:
    progress = Progress(100)
    assert (progress.ratio, progress.time_left()) == (None, None)
    told(progress, 5)
    assert progress.ratio == 0.05
    assert progress.time_left() is None
    unknown = Progress(None)
    told(unknown, 50)
    assert (unknown.ratio, unknown.time_left()) == (None, None)
    unknown.total_steps = 100  # found out later
    assert unknown.ratio == 0.5


def test_steps_of_equal_length_leave_no_doubt() -> None:
    progress = Progress(1_000)
    told(progress, 400)
    assert progress.time_left() == (600.0, 600.0, 600.0)


def test_a_resumed_training_counts_what_was_done_before() -> None:
    progress = Progress(1_000)
    told(progress, 100, first=800)
    assert progress.ratio == 0.9
    assert progress.time_left() == (100.0, 100.0, 100.0)


def test_steps_counted_from_one_end_at_the_whole() -> None:
    progress = Progress(20)
    told(progress, 20, first=1)
    assert progress.ratio == 1.0
    assert progress.time_left() == (0.0, 0.0, 0.0)


def test_where_it_began_to_count_is_known_from_before() -> None:
    resumed = Progress(20, first=1)
    told(resumed, 5, first=6)
    assert (resumed.done_steps, resumed.ratio) == (10, 0.5)
    from_zero = Progress(20, first=0)
    told(from_zero, 5, first=5)
    assert (from_zero.done_steps, from_zero.ratio) == (10, 0.5)


def test_a_program_that_tells_of_every_tenth_step_only() -> None:
    progress = Progress(1_000, first=0)
    for i in range(50):
        progress.add(i * 10 + 9, i * 10**10)
    assert progress.ratio == 0.5
    assert progress.time_left() == (500.0, 500.0, 500.0)


def test_steps_done_again_are_left_again_and_the_way_back_is_no_step() -> None:
    progress = Progress(1_000)
    told(progress, 400)
    at_ns = 400 * 10**9 + 3_600 * 10**9
    for i in range(20):
        progress.add(300 + i, at_ns + i * 10**9)
    assert progress.ratio == 0.32
    assert progress.time_left() == (680.0, 680.0, 680.0)


def test_a_training_that_goes_on_longer_than_it_said_is_done() -> None:
    progress = Progress(10)
    told(progress, 30)
    assert progress.ratio == 1.0
    assert progress.time_left() == (0.0, 0.0, 0.0)


def test_long_trainings_take_no_more_memory() -> None:
    progress = Progress(10**6)
    told(progress, 20_000)
    assert len(progress._blocks) < MOST_BLOCKS
