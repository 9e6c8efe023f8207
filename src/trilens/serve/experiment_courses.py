"""/api/experiments/courses: how a metric went in each run of an experiment, against steps and money."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from trilens.model.ledger import HOUR_MS, QUANTA_PER_UNIT
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.run import RunId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.answers.run_cost import RunCost
    from trilens.ledger.answers.worth import Course
    from trilens.ledger.source import LedgerBook
    from trilens.lineage.experiments import ExperimentRun
    from trilens.model.ledger_sums import Sum
    from trilens.model.query import QueryGuard


class RunCourse(msgspec.Struct, frozen=True):
    """In columns, by time. `spent` is the money until then, in the currency of all, and `gpu_hours` the GPU
    time; each is empty where the ledger does not have the whole run."""

    run: str
    steps: list[int]
    t_ms: list[int]
    values: list[float]
    spent: list[float]
    gpu_hours: list[float]


class CoursesAnswer(msgspec.Struct, frozen=True):
    """`metric` is null where no run told of any; `names` are all that runs told of. `currency` is null where
    not all that was spent is in one."""

    metric: str | None
    maximize: bool
    of: str | None
    names: list[str]
    currency: str | None
    runs: list[RunCourse]


class SpentSoFar:
    """What runs had cost at moments of their lives: hours of the ledger, each spread evenly over the part of
    it in which the run lived."""

    def __init__(
        self, book: LedgerBook, runs: Sequence[ExperimentRun], now_ms: int, guard: QueryGuard
    ) -> None:
        lives = {
            one.facts.run: (one.facts.created_ms, one.ended_ms if one.ended_ms is not None else now_ms)
            for run in runs
            if (one := run.reported) is not None
        }
        self._lives = lives
        self._hours: defaultdict[RunId, list[Sum]] = defaultdict(list)
        if lives:
            from_ms = min(begin for begin, _ in lives.values()) // HOUR_MS * HOUR_MS - HOUR_MS
            window = Window(from_ms, now_ms // HOUR_MS * HOUR_MS + HOUR_MS, {Dimension.RUN: tuple(lives)})
            for booked in book.sums([Dimension.RUN, Dimension.HOUR], window, guard=guard):
                self._hours[RunId(str(booked.keys[0]))].append(booked)

    def at(self, run: RunId, t_ms: Sequence[int]) -> tuple[list[float], list[float]]:
        """Money and GPU-hours at each."""
        begin, end = self._lives[run]
        spent: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for one in self._hours[run]:
            hour_ms = one.keys[1]
            assert isinstance(hour_ms, int)
            spent[hour_ms][0] += one.quanta
            spent[hour_ms][1] += one.gpu_ms
        knots, sums = [begin], [(0, 0)]
        for hour_ms in sorted(spent):
            until = min(hour_ms + HOUR_MS, max(end, begin + 1))
            quanta, gpu_ms = (x + y for x, y in zip(sums[-1], spent[hour_ms], strict=True))
            knots.append(max(until, knots[-1]))
            sums.append((quanta, gpu_ms))
        columns = np.array(sums, np.float64)
        money = np.interp(t_ms, knots, columns[:, 0]) / QUANTA_PER_UNIT
        hours = np.interp(t_ms, knots, columns[:, 1]) / HOUR_MS
        return money.tolist(), hours.tolist()


def courses_answer(
    course: tuple[str, bool, Mapping[RunId, Course]] | None,
    names: Sequence[str],
    costs: Mapping[RunId, RunCost],
    spent: SpentSoFar,
) -> CoursesAnswer:
    if course is None:
        return CoursesAnswer(None, False, None, [*names], None, [])
    metric, maximize, courses = course
    drawn = {run: one for run, one in courses.items() if one.points}
    currencies = {costs[run].currency for run in drawn if run in costs}
    currency = currencies.pop() if len(currencies) == 1 else None
    runs = []
    for run, one in drawn.items():
        steps, t_ms = [point.step for point in one.points], [point.t_ms for point in one.points]
        money, hours = spent.at(run, t_ms) if run in costs else ([], [])
        values = [point.value for point in one.points]
        runs.append(RunCourse(run, steps, t_ms, values, money if currency else [], hours))
    of = next((one.of for one in drawn.values()), None)
    return CoursesAnswer(metric, maximize, of, [*names], currency, runs)
