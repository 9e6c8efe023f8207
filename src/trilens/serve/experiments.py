"""/api/experiments: experiments with their runs, from the SDK and from every tracker alike."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.lineage.experiments import ReportedRun, experiments
from trilens.lineage.gpu_time import gpu_time
from trilens.lineage.standing import standings
from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.sight import sight_of
from trilens.serve.experiment_courses import CoursesAnswer, SpentSoFar, courses_answer
from trilens.serve.experiment_worth import (
    Asked,
    MetricAnswer,
    RunCostAnswer,
    StoppedAnswer,
    WorthReader,
    cost_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.answers.run_cost import RunCost
    from trilens.ledger.source import LedgerBook
    from trilens.lineage.experiments import Experiment, ExperimentRun
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunId
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.access.seen_runs import RunsSeen
    from trilens.serve.access.sight import Sight
    from trilens.serve.experiment_worth import Worth
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions
    from trilens.store.tracked_runs import TrackedRunRecords

_SHOWN: Final = 1_000
_BUSY: Final = 50  # runs whose GPUs are asked about: a query each


class TrackedAnswer(msgspec.Struct, frozen=True):
    system: str
    run: str
    where: str
    url: str | None


class ExperimentRunAnswer(msgspec.Struct, frozen=True):
    """`run` is its id here, null for one that only a tracker knows. A value that is not finite is a text.

    `gpu_hours` are the ledger's where it has the whole run, else as its processes tell. Of one experiment
    that is asked for by name also: how busy its GPUs were, the `metric`, whether no other run is as good and
    as cheap (`on_front`), and when it had `stopped` improving.
    """

    run: str | None
    trackers: list[TrackedAnswer]
    name: str | None
    state: str | None
    user: str | None
    started_ms: int | None
    ended_ms: int | None
    step: int | None
    params: dict[str, str]
    metrics: dict[str, float | str]
    gpu_hours: float | None
    utilization: float | None
    cost: RunCostAnswer | None
    metric: MetricAnswer | None
    on_front: bool
    stopped: StoppedAnswer | None


class ExperimentAnswer(msgspec.Struct, frozen=True):
    """`experiment` is null for runs that name none."""

    experiment: str | None
    runs: list[ExperimentRunAnswer]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is asked for one answer."""

    runs: RunSource
    book: LedgerBook
    worth: WorthReader
    is_whole: bool

    def experiments(self, reported: Sequence[ReportedRun], tracked: Sequence[TrackedRun]) -> list[Experiment]:
        """Whose a run is that only a tracker knows, nobody can tell."""
        found = experiments(reported, tracked, by_tag_alone=not self.is_whole)
        if self.is_whole:
            return found
        told = ((one, tuple(run for run in one.runs if run.reported is not None)) for one in found)
        return [one._replace(runs=runs) for one, runs in told if runs]


class ExperimentsApi:
    def __init__(
        self,
        runs: RunsSeen,
        tracked: TrackedRunRecords,
        book: LedgerBook,
        utilization: Callable[[RunId], float | None],
        questions: Questions,
    ) -> None:
        self._runs = runs
        self._book = book
        self._utilization = utilization
        self._tracked = tracked
        self._questions = questions

    def _by(self, sight: Sight) -> _Seen:
        runs, book = self._runs.by(sight), seen_book(self._book, sight)
        return _Seen(runs, book, WorthReader(runs, book), sight.is_whole)

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        wanted = params.first("experiment") or None
        limit = min(params.count("limit") or _SHOWN, _SHOWN)
        asked = _asked(params)
        warnings: list[str] = []
        seen = self._by(sight_of(request))

        def read(guard: QueryGuard) -> list[ExperimentAnswer]:
            reported, tracked = (
                self._reported(seen, wanted, limit, guard),
                self._tracker_runs(wanted, limit, guard),
            )
            found = seen.experiments(reported, tracked)
            if wanted is None and limit in (len(reported), len(tracked)):
                warnings.append(f"only the latest {limit:,} runs: name an experiment to see those of it")
            return [
                ExperimentAnswer(one.name, self._answers(seen, one, asked, guard, closely=wanted is not None))
                for one in found
                if wanted is None or one.name == wanted
            ]

        return await self._questions.answer(request, read, warnings)

    async def courses(self, request: Request) -> Response:
        params = await self._questions.params(request)
        wanted = params.first("experiment") or None
        limit = min(params.count("limit") or _SHOWN, _SHOWN)
        asked = _asked(params)
        seen = self._by(sight_of(request))

        def read(guard: QueryGuard) -> CoursesAnswer:
            tracked = self._tracker_runs(wanted, limit, guard)
            found = seen.experiments(self._reported(seen, wanted, limit, guard), tracked)
            runs = [run for one in found if one.name == wanted for run in one.runs]
            now_ms = self._questions.now_ms()
            told = seen.worth.validations(runs, guard)
            names = {name for run in runs for name in run.metrics}
            return courses_answer(
                seen.worth.courses(runs, asked, guard, told),
                sorted(names | {name for every in told.values() for one in every for name in one.values}),
                seen.worth.costs(runs, now_ms, guard),
                SpentSoFar(seen.book, runs, now_ms, guard),
            )

        return await self._questions.answer(request, read)

    def _answers(
        self, seen: _Seen, experiment: Experiment, asked: Asked, guard: QueryGuard, *, closely: bool
    ) -> list[ExperimentRunAnswer]:
        """`closely` reads through what each run told."""
        runs, worth = experiment.runs, seen.worth
        now_ms = self._questions.now_ms()
        costs = worth.costs(runs, now_ms, guard)
        if not closely:
            return [_answer(run, _cost(run, costs), None, None) for run in runs]
        found = worth.worth(runs, costs, asked, now_ms, guard)
        answers = []
        for at, (run, one) in enumerate(zip(runs, found, strict=True)):
            guard.check()
            ours = run.reported if at < _BUSY else None
            busy = self._utilization(ours.facts.run) if ours is not None else None
            answers.append(_answer(run, _cost(run, costs), one, busy))
        return answers

    def _tracker_runs(self, experiment: str | None, limit: int, guard: QueryGuard) -> list[TrackedRun]:
        latest = self._tracked.runs(limit=limit, guard=guard)
        if experiment is None:
            return latest
        # Of all others too: a run may be of this experiment only as its program tells.
        of_it = self._tracked.runs(experiment=experiment, limit=limit, guard=guard)
        return [*{one.tracker: one for one in (*of_it, *latest)}.values()]

    def _reported(
        self, seen: _Seen, experiment: str | None, limit: int, guard: QueryGuard
    ) -> list[ReportedRun]:
        now_ms, runs = self._questions.now_ms(), seen.runs
        facts = runs.runs(limit=limit, guard=guard)
        if experiment is not None:
            of_it = runs.runs(experiment=experiment, limit=limit, guard=guard)
            facts = [*{one.run: one for one in (*of_it, *facts)}.values()]
        processes = runs.processes([one.run for one in facts], guard=guard)
        standing = standings(facts, processes, runs, now_ms, guard)
        lives: defaultdict[RunId, list[RankProcess]] = defaultdict(list)
        for process in processes:
            lives[process.run].append(process)
        reported = []
        for one in facts:
            stands = standing[one.run]
            held = gpu_time(lives[one.run], now_ms)
            reported.append(
                ReportedRun(
                    one,
                    stands.state,
                    _ended(lives[one.run]),
                    stands.step,
                    stands.values,
                    held.seconds / 3600 if held is not None and not held.silent else None,
                )
            )
        return reported


def _ended(processes: list[RankProcess]) -> int | None:
    """None while any of them lives."""
    ends = [process.ended_ms for process in processes]
    return max((end for end in ends if end is not None), default=None) if None not in ends else None


def _asked(params: Params) -> Asked:
    direction = params.first("maximize").lower()
    if direction not in ("", "true", "false"):
        raise RequestError('invalid parameter "maximize": write true or false')
    gain = params.first("least_gain")
    try:
        least_gain = float(gain) if gain else None
    except ValueError:
        least_gain = math.nan
    if least_gain is not None and not 0 <= least_gain < 1:
        raise RequestError('invalid parameter "least_gain": a share from 0 to less than 1, such as 0.01')
    return Asked(params.first("metric") or None, direction == "true" if direction else None, least_gain)


def _cost(run: ExperimentRun, costs: Mapping[RunId, RunCost]) -> RunCost | None:
    return costs.get(run.reported.facts.run) if run.reported is not None else None


def _gpu_hours(run: ExperimentRun, cost: RunCost | None) -> float | None:
    """The ledger knows parts of GPUs, and when a pod held one without a process."""
    if cost is not None:
        return cost.time.gpu_ms / HOUR_MS
    return run.reported.gpu_hours if run.reported is not None else None


def _answer(
    run: ExperimentRun, cost: RunCost | None, worth: Worth | None, utilization: float | None
) -> ExperimentRunAnswer:
    reported, first = run.reported, run.tracked[0] if run.tracked else None
    return ExperimentRunAnswer(
        reported.facts.run if reported else None,
        [_tracked(one) for one in run.tracked],
        (reported.facts.name if reported else None) or (first.name if first else None),
        reported.state if reported and reported.state else (first.state if first else None),
        first.user if first else None,
        run.started_ms,
        reported.ended_ms if reported else (first.ended_ms if first else None),
        reported.step if reported and reported.step is not None else (first.step if first else None),
        dict(run.params),
        {name: value if math.isfinite(value) else str(value) for name, value in run.metrics.items()},
        _gpu_hours(run, cost),
        utilization,
        cost_answer(cost) if cost is not None else None,
        worth.metric if worth is not None else None,
        worth.on_front if worth is not None else False,
        worth.stopped if worth is not None else None,
    )


def _tracked(one: TrackedRun) -> TrackedAnswer:
    return TrackedAnswer(one.tracker.system, one.tracker.run, one.tracker.where, one.url)
