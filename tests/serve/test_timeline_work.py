"""What steps took in is read once, but for those of which ranks may still tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from run_records import RUN
from trilens.model.query import QueryGuard
from trilens.serve.pages.lately import Lately
from trilens.serve.pages.timeline_program import some_steps
from trilens.serve.pages.timeline_work import WorkOfSteps
from trilens.store.step_grids import RunSeen, StepTimes, StepWork


class ToldWork:
    """Each step took in as many samples as its number and one more with every time it is asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def work(self, _run: Any, steps: list[int], _guard: Any) -> StepWork:
        self.asked.append(steps)
        step = np.array([one for one in steps if one != 13], np.int64)
        samples = step + float(len(self.asked))
        return StepWork(step, np.zeros(len(step), np.int64), samples, np.full(len(step), np.nan))


def every_second(steps: int) -> StepTimes:
    number = np.arange(steps)
    return StepTimes(number, np.zeros(steps, np.int64), number * 1_000_000)


def test_what_is_settled_is_read_once() -> None:
    told, times = ToldWork(), every_second(100)
    work = WorkOfSteps(told)  # type: ignore[arg-type]
    seen, places = RunSeen(RUN, 0, 100_000), np.array([10, 30, 50, 90])
    samples, tokens = work.of(seen, times, places, QueryGuard())
    assert samples.tolist() == [11, 31, 51, 91]
    assert np.isnan(tokens).all()
    again, _ = work.of(seen, times, places, QueryGuard())
    assert told.asked == [[10, 30, 50, 90], [50, 90]], "ranks may tell of the last minute yet"
    assert again.tolist() == [11, 31, 52, 92]
    other, _ = work.of(seen._replace(run=RUN + "-2"), times, places, QueryGuard())  # type: ignore[arg-type]
    assert other.tolist() == [13, 33, 53, 93]


def test_what_nobody_told_is_unknown() -> None:
    work = WorkOfSteps(ToldWork())  # type: ignore[arg-type]
    samples, _ = work.of(RunSeen(RUN, 0, 0), every_second(20), np.array([12, 13]), QueryGuard())
    assert samples[0] == 13.0
    assert np.isnan(samples[1])


def test_a_moment_later_the_same_steps_are_chosen() -> None:
    first, later = every_second(4_000), every_second(4_090)
    few, more = first.step[some_steps(first, 12)], later.step[some_steps(later, 12)]
    assert few.tolist() == [*range(0, 4_000, 512)]
    assert set(few) <= set(more)
    assert len(some_steps(every_second(11), 12)) == 11


def test_what_was_found_holds_for_a_moment() -> None:
    kept, at_once = Lately[int](60.0), Lately[int](-1.0)
    found = iter(range(10))
    assert [kept.of("a", lambda: next(found)) for _ in range(3)] == [0, 0, 0]
    assert kept.of("b", lambda: next(found)) == 1
    assert [at_once.of("a", lambda: next(found)) for _ in range(2)] == [2, 3]
