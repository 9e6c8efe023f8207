"""/api/experiments: experiments with their runs, from the SDK and from every tracker alike."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.lineage.experiments import ReportedRun, experiments
from trilens.lineage.gpu_time import gpu_time
from trilens.lineage.standing import standings
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.lineage.experiments import ExperimentRun
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunId
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.runner import QueryRunner
    from trilens.store.tracked_runs import TrackedRunRecords

_SHOWN: Final = 1_000


class TrackedAnswer(msgspec.Struct, frozen=True):
    system: str
    run: str
    where: str
    url: str | None


class ExperimentRunAnswer(msgspec.Struct, frozen=True):
    """`run` is its id here, null for one that only a tracker knows. A value that is not finite is a text."""

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


class ExperimentAnswer(msgspec.Struct, frozen=True):
    """`experiment` is null for runs that name none."""

    experiment: str | None
    runs: list[ExperimentRunAnswer]


class ExperimentsApi:
    """Both sources are None where nothing is kept."""

    def __init__(
        self,
        runs: RunSource | None,
        tracked: TrackedRunRecords | None,
        runner: QueryRunner,
        max_body: int,
    ) -> None:
        self._runs = runs
        self._tracked = tracked
        self._runner = runner
        self._max_body = max_body

    async def every(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        wanted = params.first("experiment") or None
        limit = min(params.count("limit") or _SHOWN, _SHOWN)
        guard, gzip = self._runner.guard(), accepts_gzip(request)

        def work() -> tuple[bytes, bool]:
            reported, tracked = self._reported(wanted, limit, guard), self._seen(wanted, limit, guard)
            found = experiments(reported, tracked)
            told = [
                ExperimentAnswer(one.name, [_answer(run) for run in one.runs])
                for one in found
                if wanted is None or one.name == wanted
            ]
            warnings = []
            if wanted is None and limit in (len(reported), len(tracked)):
                warnings.append(f"only the latest {limit:,} runs: name an experiment to see those of it")
            return pack(success(msgspec.json.encode(told), warnings), gzip)

        return packed_response(await self._runner.run(request, guard, work))

    def _seen(self, experiment: str | None, limit: int, guard: QueryGuard) -> list[TrackedRun]:
        if self._tracked is None:
            return []
        latest = self._tracked.runs(limit=limit, guard=guard)
        if experiment is None:
            return latest
        # Of all others too: a run may be of this experiment only as its program tells.
        of_it = self._tracked.runs(experiment=experiment, limit=limit, guard=guard)
        return [*{one.tracker: one for one in (*of_it, *latest)}.values()]

    def _reported(self, experiment: str | None, limit: int, guard: QueryGuard) -> list[ReportedRun]:
        if self._runs is None:
            return []
        now_ms = time.time_ns() // 1_000_000
        facts = self._runs.runs(limit=limit, guard=guard)
        if experiment is not None:
            of_it = self._runs.runs(experiment=experiment, limit=limit, guard=guard)
            facts = [*{one.run: one for one in (*of_it, *facts)}.values()]
        processes = self._runs.processes([one.run for one in facts], guard=guard)
        standing = standings(facts, processes, self._runs, now_ms, guard)
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


def _answer(run: ExperimentRun) -> ExperimentRunAnswer:
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
        reported.gpu_hours if reported else None,
    )


def _tracked(one: TrackedRun) -> TrackedAnswer:
    return TrackedAnswer(one.tracker.system, one.tracker.run, one.tracker.where, one.url)
