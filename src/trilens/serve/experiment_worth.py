"""What the runs of an experiment were worth: a metric's course against what it cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from trilens.ledger.answers.goodput import goodput
from trilens.ledger.answers.run_cost import RunLife, run_costs, spent_after
from trilens.ledger.answers.worth import (
    Course,
    default_metric,
    pareto_front,
    stepped_course,
    stopped_improving,
    validated_course,
    wants_more,
)
from trilens.model.ledger import HOUR_MS
from trilens.serve.money.cost_view import amount_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.answers.run_cost import RunCost
    from trilens.ledger.answers.worth import Stopped
    from trilens.ledger.source import LedgerBook
    from trilens.lineage.experiments import ExperimentRun
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId, ValidationRecord

_LAST_STEP: Final = 2**53
_CLOSELY: Final = 200  # runs whose courses are read


class Asked(NamedTuple):
    """Each is None where the question leaves it open."""

    metric: str | None = None
    maximize: bool | None = None
    least_gain: float | None = None


class RunCostAnswer(msgspec.Struct, frozen=True):
    """Of the run's whole life, from the ledger. `amount` is null without a price, or in several
    currencies."""

    amount: str | None
    currency: str | None
    gpu_ms: int
    unpriced_gpu_ms: int
    goodput: float | None
    told: float | None


class MetricAnswer(msgspec.Struct, frozen=True):
    """`of` is validation, step (medians of hundredths of the run) or tracker (of which only the last is
    known)."""

    name: str
    of: str
    maximize: bool
    final: float
    best: float | None
    best_step: int | None
    best_ms: int | None


class StoppedAnswer(msgspec.Struct, frozen=True):
    """The last value that was better than the last such one by more than `least_gain`; nothing came after
    it but `values` without one, and `cost` is what was spent then."""

    t_ms: int
    step: int
    value: float
    values: int
    least_gain: float
    cost: RunCostAnswer | None


class Worth(NamedTuple):
    metric: MetricAnswer | None
    on_front: bool
    stopped: StoppedAnswer | None


class WorthReader:
    def __init__(self, runs: RunSource, book: LedgerBook) -> None:
        self._runs = runs
        self._book = book

    def costs(self, runs: Sequence[ExperimentRun], now_ms: int, guard: QueryGuard) -> dict[RunId, RunCost]:
        lives = [
            RunLife(
                run.reported.facts.run,
                run.reported.facts.created_ms,
                run.reported.ended_ms if run.reported.ended_ms is not None else now_ms,
            )
            for run in runs
            if run.reported is not None
        ]
        return run_costs(self._book, lives, now_ms, guard)

    def worth(
        self,
        runs: Sequence[ExperimentRun],
        costs: Mapping[RunId, RunCost],
        asked: Asked,
        now_ms: int,
        guard: QueryGuard,
    ) -> list[Worth]:
        """One for each, of one experiment."""
        course = self.courses(runs, asked, guard)
        if course is None:
            return [Worth(None, False, None) for _ in runs]
        metric, maximize, courses = course
        stopped = self._stopped(runs, courses, asked.least_gain)
        moments = {run: one.at.t_ms for run, one in stopped.items() if run in costs}
        after = spent_after(self._book, moments, now_ms, guard)
        metrics = [_metric(run, metric, maximize, courses) for run in runs]
        front = _front(runs, metrics, costs, maximize)
        found = []
        for run, shown in zip(runs, metrics, strict=True):
            ours = run.reported.facts.run if run.reported is not None else None
            end = stopped.get(ours) if ours is not None else None
            found.append(
                Worth(
                    shown,
                    ours in front,
                    StoppedAnswer(
                        end.at.t_ms,
                        end.at.step,
                        end.at.value,
                        end.values,
                        end.least_gain,
                        cost_answer(after[ours]) if ours in after else None,
                    )
                    if end is not None and ours is not None
                    else None,
                )
            )
        return found

    def courses(
        self,
        runs: Sequence[ExperimentRun],
        asked: Asked,
        guard: QueryGuard,
        told: Mapping[RunId, Sequence[ValidationRecord]] | None = None,
    ) -> tuple[str, bool, dict[RunId, Course]] | None:
        """The metric that runs are compared by, whether more of it is better, and how it went in each; None
        where nobody told of any. `told` are their validations, where they were read."""
        if told is None:
            told = self.validations(runs, guard)
        metric = asked.metric or default_metric(
            [name for every in told.values() for one in every for name in one.values],
            [name for run in runs for name in run.metrics],
        )
        if metric is None:
            return None
        maximize = asked.maximize if asked.maximize is not None else wants_more(metric)
        # What validations and what steps tell under one name are two things, and not to be compared.
        is_validated = any(metric in one.values for every in told.values() for one in every)
        return (
            metric,
            maximize,
            {
                run: validated_course(metric, validations, maximize=maximize)
                if is_validated
                else stepped_course(
                    metric, self._runs.curve(run, metric, 0, _LAST_STEP, guard=guard), maximize=maximize
                )
                for run, validations in told.items()
            },
        )

    def validations(
        self, runs: Sequence[ExperimentRun], guard: QueryGuard
    ) -> dict[RunId, list[ValidationRecord]]:
        return {
            run.reported.facts.run: self._runs.validations(run.reported.facts.run, guard=guard)
            for run in runs[:_CLOSELY]
            if run.reported is not None
        }

    def _stopped(
        self, runs: Sequence[ExperimentRun], courses: Mapping[RunId, Course], least_gain: float | None
    ) -> dict[RunId, Stopped]:
        found = {}
        for run in runs:
            ours = run.reported
            course = courses.get(ours.facts.run) if ours is not None else None
            if ours is None or course is None or not course.points:
                continue
            ended_ms = ours.ended_ms if ours.ended_ms is not None else course.points[-1].t_ms
            end = stopped_improving(course, ended_ms, least_gain=least_gain)
            if end is not None:
                found[ours.facts.run] = end
        return found


def cost_answer(cost: RunCost) -> RunCostAnswer:
    time = goodput(cost.time)
    return RunCostAnswer(
        amount_text(cost.quanta) if cost.quanta is not None else None,
        cost.currency,
        cost.time.gpu_ms,
        cost.time.unpriced_ms,
        time.ratio,
        time.told,
    )


def _metric(
    run: ExperimentRun, metric: str, maximize: bool, courses: Mapping[RunId, Course]
) -> MetricAnswer | None:
    course = courses.get(run.reported.facts.run) if run.reported is not None else None
    if course is not None and course.final is not None and course.best is not None:
        best = course.best
        return MetricAnswer(metric, course.of, maximize, course.final.value, best.value, best.step, best.t_ms)
    last = run.metrics.get(metric)
    if run.reported is not None or last is None or not math.isfinite(last):
        return None
    return MetricAnswer(metric, "tracker", maximize, last, None, None, None)


def _front(
    runs: Sequence[ExperimentRun],
    metrics: Sequence[MetricAnswer | None],
    costs: Mapping[RunId, RunCost],
    maximize: bool,
) -> set[RunId]:
    """By money where all runs with a value have a price in one currency, else by GPU time."""
    best = {
        run.reported.facts.run: (run.reported, shown.best)
        for run, shown in zip(runs, metrics, strict=True)
        if run.reported is not None and shown is not None and shown.best is not None
    }
    spent = [costs.get(run) for run in best]
    priced = len({cost.currency if cost is not None else None for cost in spent}) == 1 and not any(
        cost is None or cost.quanta is None or cost.time.unpriced_ms for cost in spent
    )
    against: dict[RunId, tuple[int, float]] = {}
    for run, (reported, value) in best.items():
        cost = costs.get(run)
        if cost is not None:
            against[run] = ((cost.quanta or 0) if priced else cost.time.gpu_ms, value)
        elif reported.gpu_hours is not None:
            against[run] = round(reported.gpu_hours * HOUR_MS), value
    return pareto_front(against, maximize=maximize)
