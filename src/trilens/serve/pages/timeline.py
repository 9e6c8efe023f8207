"""/api/workloads/.../timeline: a workload's three layers, its troubles and its money on one grid of time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from trilens.model.errors import NotFound, TrilensError
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.seen_trouble import seen_incidents
from trilens.serve.access.sight import sight_of
from trilens.serve.envelope import success
from trilens.serve.event_answers import WorkloadName
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.rank_seats import seats_of_rank
from trilens.serve.pages.timeline_answers import RankLayer, TimelineAnswer
from trilens.serve.pages.timeline_gpu_memory import GpuMemory
from trilens.serve.pages.timeline_gpu_sums import GpuSums, gpu_sums, summed_layer
from trilens.serve.pages.timeline_gpus import (
    GpuReadings,
    GpusRead,
    WorkloadGpus,
    figures_of,
    gpu_layer,
    readings_of,
)
from trilens.serve.pages.timeline_grid import asked_grid, told
from trilens.serve.pages.timeline_money import money_layer
from trilens.serve.pages.timeline_platform import EVENTS_READ, placed_pods, platform_layer, troubles
from trilens.serve.pages.timeline_program import program_layer
from trilens.serve.pages.timeline_rank import RankSteps, asked_rank
from trilens.serve.pages.timeline_work import WorkOfSteps
from trilens.serve.routes import route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.source import LedgerBook
    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval
    from trilens.model.gpu import BindingInterval
    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.model.workload import WorkloadKey
    from trilens.serve.access.sight import Sight
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.pages.rank_seats import Seat
    from trilens.serve.pages.timeline_answers import (
        MoneyLayer,
        PlatformLayer,
        ProgramLayer,
        TroubleSpan,
    )
    from trilens.serve.pages.timeline_gpus import Bools
    from trilens.serve.pages.timeline_grid import Grid
    from trilens.serve.pages.timeline_subject import Subject, Subjects
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute
    from trilens.store.gpus import GpuRecords
    from trilens.store.step_grids import StepTimes

PATH: Final = "/api/workloads/{cluster}/{namespace}/{kind}/{name}/timeline"
_HALF_A_DAY_MS: Final = 43_200_000
_INCIDENTS: Final = 1_000


class Events(Protocol):
    def of_pods(
        self,
        cluster: str,
        pods: Iterable[tuple[str, str, str]],
        from_ms: int,
        to_ms: int,
        *,
        limit: int,
        guard: QueryGuard | None = None,
    ) -> Sequence[EventRecord]: ...


class Findings(Protocol):
    def during(
        self,
        from_ms: int,
        to_ms: int,
        *,
        naming: WorkloadKey | None = None,
        guard: QueryGuard | None = None,
    ) -> Sequence[FindingInterval]: ...


class Incidents(Protocol):
    def during(
        self,
        from_ms: int,
        to_ms: int,
        *,
        naming: WorkloadKey | None = None,
        limit: int | None = None,
        guard: QueryGuard | None = None,
    ) -> Sequence[Incident]: ...


@dataclass(frozen=True, slots=True)
class TimelineSources:
    """What its layers are read from. Thread-safe all."""

    subjects: Subjects
    gpus: GpuRecords
    events: Events
    findings: Findings
    incidents: Incidents
    book: LedgerBook
    queries: OwnQueries


class _Read(NamedTuple):
    """All but the GPUs' readings, which may be on another server."""

    subject: Subject
    program: ProgramLayer
    platform: PlatformLayer
    troubles: list[TroubleSpan]
    money: MoneyLayer
    rank: _RankRead | None


class _RankRead(NamedTuple):
    seats: Sequence[Seat]  # one for each of its lives
    step_ms: list[float | None]
    own_ms: list[float | None]


class TimelineApi(PageApi):
    def __init__(self, sources: TimelineSources, questions: Questions) -> None:
        self._sources = sources
        self._questions = questions
        self._memory = GpuMemory(sources.queries, questions.now_ms)
        self._steps = RankSteps(sources.subjects.grids)
        self._work = WorkOfSteps(sources.subjects.grids)

    def routes(self) -> list[GuardedRoute]:
        return [route(PATH, self.timeline, narrowed=True)]

    async def timeline(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        grid, rank = asked_grid(params, now_ms, _HALF_A_DAY_MS), asked_rank(params)
        runner, wanted, sight = self._questions.runner, request.path_params, sight_of(request)
        guard, subjects = runner.guard(), self._sources.subjects

        def found() -> tuple[Subject, Bools]:
            one = subjects.find(wanted, now_ms, guard, sight)
            return one, np.array([bool(placed) for placed in placed_pods(one.history, grid, now_ms)])

        subject, was_there = await runner.run(request, guard, found)
        warnings: list[str] = []
        layers = partial(self._read, sight, subject, grid, rank, now_ms, warnings, guard)
        read, sums = await asyncio.gather(
            runner.run(request, guard, layers),
            self._sums(subject, was_there, grid, warnings),
        )
        gpus = await self._gpus(request, read, sums, was_there, grid, warnings)
        return await self._questions.answer_bytes(
            request, lambda _guard: success(msgspec.json.encode(_answer(read, gpus, grid)), warnings)
        )

    async def _sums(
        self, subject: Subject, was_there: Bools, grid: Grid, warnings: list[str]
    ) -> GpuSums | None:
        try:
            return await gpu_sums(self._sources.queries, subject.key, was_there, grid)
        except TrilensError as e:
            warnings.append(f"its GPUs could not be asked about: {e}")
            return GpuSums(grid.empty(), {})

    async def _gpus(
        self,
        request: Request,
        read: _Read,
        sums: GpuSums | None,
        was_there: Bools,
        grid: Grid,
        warnings: list[str],
    ) -> GpusRead:
        key = read.subject.key
        if sums is not None and (read.rank is None or not sums.figures):
            return GpusRead(summed_layer(sums), GpuReadings({}, {}))
        try:
            if sums is not None and read.rank is not None:
                own = {one.gpu for one in read.rank.seats if one.gpu}
                return GpusRead(summed_layer(sums), await readings_of(self._sources.queries, key, own, grid))
            return await self._memory.read(
                WorkloadGpus(key, was_there, self._bindings(request, read, grid)), grid
            )
        except TrilensError as e:
            warnings.append(f"its GPUs could not be asked about: {e}")
            nothing = GpuReadings({}, {})
            return GpusRead(gpu_layer(nothing, grid), nothing)

    def _bindings(
        self, request: Request, read: _Read, grid: Grid
    ) -> Callable[[], Awaitable[Sequence[BindingInterval]]]:
        sources, runner = self._sources, self._questions.runner

        async def bindings() -> Sequence[BindingInterval]:
            guard = runner.guard()
            pods = [one.membership.pod for one in read.subject.history.members]
            return await runner.run(
                request, guard, lambda: sources.gpus.bindings_of(pods, grid.end_ms, guard)
            )

        return bindings

    def _read(
        self,
        sight: Sight,
        subject: Subject,
        grid: Grid,
        rank: int | None,
        now_ms: int,
        warnings: list[str],
        guard: QueryGuard,
    ) -> _Read:
        sources, grids = self._sources, self._sources.subjects.grids
        book = seen_book(sources.book, sight)
        runs = [one for one in subject.runs if one.started_ms < grid.end_ms]
        pods = {one.membership.pod[1:] for one in subject.history.members}
        span = (grid.start_ms, min(grid.end_ms, now_ms))
        with self._questions.runner.side_by_side.reading(guard) as reads:
            begin = reads.begin
            money = begin(lambda: money_layer(book, subject.key, subject.life, grid, guard))
            processes = begin(
                lambda: sources.subjects.runs.processes([one.run for one in runs[-1:]], guard=guard)
            )
            events = begin(
                lambda: sources.events.of_pods(
                    subject.key.cluster, pods, *span, limit=EVENTS_READ, guard=guard
                )
            )
            incidents = begin(
                lambda: sources.incidents.during(*span, naming=subject.key, limit=_INCIDENTS, guard=guard)
            )
            findings = begin(lambda: sources.findings.during(*span, naming=subject.key, guard=guard))
            program, times = program_layer(
                grids, self._work, runs, lambda: len({one.rank for one in processes()}) or None, grid, guard
            )
            own = None
            if rank is not None and runs:
                seats = seats_of_rank(processes(), rank)
                own = self._rank(rank, seats, runs[-1].run, times, grid, guard)
            for what, read, most in (("events", events, EVENTS_READ), ("incidents", incidents, _INCIDENTS)):
                if len(read()) == most:
                    warnings.append(f"only the latest {most:,} {what} are shown: a shorter span has others")
            return _Read(
                subject,
                program,
                platform_layer(subject.history, events(), grid, now_ms),
                troubles(
                    subject.key,
                    seen_incidents(incidents(), sources.subjects.workloads, sight, guard),
                    findings(),
                ),
                money(),
                own,
            )

    def _rank(
        self,
        rank: int,
        seats: Sequence[Seat],
        run: RunId,
        times: StepTimes | None,
        grid: Grid,
        guard: QueryGuard,
    ) -> _RankRead:
        if not seats:
            raise NotFound(f"{run} has no rank {rank}", hint="/ranks has those that there are")
        step_ms, own_ms = grid.empty(), grid.empty()
        if times is not None:
            step_ms, own_ms = self._steps.lines(run, rank, times, grid, guard)
        return _RankRead(seats, told(step_ms, 4), told(own_ms, 4))


def _answer(read: _Read, gpus: GpusRead, grid: Grid) -> TimelineAnswer:
    rank = read.rank
    return TimelineAnswer(
        WorkloadName(*read.subject.key),
        grid.start_ms,
        grid.width_ms,
        grid.slots,
        read.program,
        read.platform,
        gpus.layer,
        read.troubles,
        read.money,
        None
        if rank is None
        else RankLayer(
            rank.seats[-1].rank,
            rank.seats[-1].pod,
            rank.seats[-1].node or None,
            rank.seats[-1].gpu,
            rank.step_ms,
            rank.own_ms,
            figures_of(gpus.readings, [(one.started_ms, one.gpu) for one in rank.seats], grid),
        ),
    )
