"""One rank's steps over time: read once, and only what came since."""

from __future__ import annotations

from typing import Any

import numpy as np

from run_records import RUN
from trilens.model.query import QueryGuard
from trilens.serve.pages.timeline_grid import Grid
from trilens.serve.pages.timeline_rank import RankSteps
from trilens.store.step_grids import StepsOfRanks, StepTimes


class ToldSteps:
    """Each step takes as many milliseconds as its number, a quarter of it waiting; up to `told` are known."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.told = 10_000

    def steps(self, _run: Any, steps: list[int], *, rank: int, guard: Any) -> StepsOfRanks:
        self.asked.append(steps)
        step = np.array([one for one in steps if one <= self.told], np.int64)
        same = np.zeros(len(step), np.int64)
        return StepsOfRanks(step, same, same + rank, step * 1000, step * 250)


def every_second(first: int, last: int, apart: int = 1) -> StepTimes:
    number = np.arange(first, last + 1, apart)
    return StepTimes(number, np.zeros(len(number), np.int64), number * 1_000_000)


def test_what_was_read_is_not_read_again() -> None:
    told, grid = ToldSteps(), Grid(0, 10_000, 200)
    steps = RankSteps(told)  # type: ignore[arg-type]
    step_ms, own_ms = steps.lines(RUN, 7, every_second(0, 1_999), grid, QueryGuard())
    (first,) = told.asked
    assert first == [*range(0, 2_000, 16)]
    known = ~np.isnan(step_ms)
    assert (step_ms[4], own_ms[4]) == (48.0, 36.0)
    assert np.array_equal(own_ms[known], step_ms[known] * 0.75)
    steps.lines(RUN, 7, every_second(0, 1_999), grid, QueryGuard())
    assert len(told.asked) == 1
    later = Grid(100_000, 10_000, 200)
    moved, _ = steps.lines(RUN, 7, every_second(100, 2_099), later, QueryGuard())
    assert told.asked[1:] == [[*range(2_000, 2_100, 16)]]
    assert np.array_equal(moved[:-10], step_ms[10:], equal_nan=True)
    steps.lines(RUN, 8, every_second(0, 1_999), grid, QueryGuard())
    assert told.asked[-1] == first, "another rank told something else"


def test_what_is_not_told_yet_is_asked_for_again() -> None:
    told, grid = ToldSteps(), Grid(0, 10_000, 20)
    steps = RankSteps(told)  # type: ignore[arg-type]
    told.told = 90
    first, _ = steps.lines(RUN, 0, every_second(0, 99), grid, QueryGuard())
    assert first[9] == 90.0
    told.told = 99
    step_ms, _ = steps.lines(RUN, 0, every_second(0, 99), grid, QueryGuard())
    assert told.asked[1] == [*range(91, 100)]
    assert step_ms[9] == 99.0


def test_steps_that_no_power_of_two_divides_are_read_too() -> None:
    told, grid = ToldSteps(), Grid(0, 100_000, 100)
    steps = RankSteps(told)  # type: ignore[arg-type]
    step_ms, _ = steps.lines(RUN, 0, every_second(1, 9_999, 2), grid, QueryGuard())
    assert len(told.asked[0]) == 160
    assert not np.isnan(step_ms).any()
    nothing = every_second(1, 0)
    assert np.isnan(steps.lines(RUN, 0, nothing, grid, QueryGuard())[0]).all()
