"""/api/workloads/.../ranks: step times of ranks over time, and where each rank is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.errors import RequestError
from trilens.serve.access.sight import sight_of
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.rank_heat_answers import RankHeatAnswer
from trilens.serve.pages.rank_heat_columns import HeatColumns
from trilens.serve.pages.rank_heat_matrix import factors, shown_rows
from trilens.serve.pages.rank_seats import seats_of
from trilens.serve.pages.timeline_grid import Grid, asked_span, told
from trilens.serve.routes import route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.pages.rank_seats import Seat
    from trilens.serve.pages.timeline_grid import Floats
    from trilens.serve.pages.timeline_subject import Subject, Subjects
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute

PATH: Final = "/api/workloads/{cluster}/{namespace}/{kind}/{name}/ranks"
_HALF_A_DAY_MS: Final = 43_200_000
_MOST_COLUMNS: Final = 200
_MOST_ROWS: Final = 4_096
_USUAL_ROWS: Final = 512
_MOST_ATTEMPTS: Final = 4
_MEASURES: Final = ("own", "step")


class RankHeatApi(PageApi):
    def __init__(self, subjects: Subjects, questions: Questions) -> None:
        self._subjects = subjects
        self._questions = questions
        self._columns = HeatColumns(subjects.grids)

    def routes(self) -> list[GuardedRoute]:
        return [route(PATH, self.ranks, narrowed=True)]

    async def ranks(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms, wanted = self._questions.now_ms(), request.path_params
        columns = _within(params, "columns", _MOST_COLUMNS, _MOST_COLUMNS)
        rows = _within(params, "rows", _USUAL_ROWS, _MOST_ROWS)
        measure = params.first("measure") or None
        if measure not in (None, *_MEASURES):
            raise RequestError(f'invalid parameter "measure": {measure!r} is neither own nor step')
        grid = Grid.over(*asked_span(params, now_ms, _HALF_A_DAY_MS), columns)
        warnings: list[str] = []
        sight = sight_of(request)

        def read(guard: QueryGuard) -> RankHeatAnswer:
            subject = self._subjects.find(wanted, now_ms, guard, sight)
            found = self._heat(subject, grid, rows, measure, now_ms, guard)
            if len(found.ranks) < found.ranks_known:
                warnings.append(
                    f"{len(found.ranks):,} of {found.ranks_known:,} ranks: the worst, and some of the others"
                )
            return found

        return await self._questions.answer(request, read, warnings)

    def _heat(
        self,
        subject: Subject,
        grid: Grid,
        rows: int,
        measure: str | None,
        now_ms: int,
        guard: QueryGuard,
    ) -> RankHeatAnswer:
        runs = [one for one in subject.runs if one.started_ms < grid.end_ms]
        if not runs:
            return _nothing(grid)
        run = runs[-1].run
        seats = seats_of(self._subjects.runs.processes([run], guard=guard))
        ranks = np.unique(np.array([one.rank for one in seats], np.int64))
        columns = self._columns.read(run, ranks, grid, now_ms, guard)
        if measure is None:
            measure = "own" if any(one.tells_waiting for one in columns) else "step"
        is_own = measure == "own"
        cells = np.stack([one.own_ms if is_own else one.step_ms for one in columns], axis=1)
        medians = np.array([one.own_median_ms if is_own else one.step_median_ms for one in columns])
        factor, worst = factors(cells, medians)
        shown = shown_rows(factor, rows)
        attempts = sorted({one.attempt for one in columns if one.attempt is not None})[-_MOST_ATTEMPTS:]
        places = _Places(seats, ranks[shown].tolist(), attempts)
        return RankHeatAnswer(
            run,
            measure,
            grid.start_ms,
            grid.width_ms,
            grid.slots,
            len(ranks),
            sum(one.steps_known for one in columns),
            sum(one.steps_read for one in columns),
            ranks[shown].tolist(),
            attempts,
            [attempts.index(one.attempt) if one.attempt in attempts else None for one in columns],
            places.told(lambda seat: seat.pod),
            places.told(lambda seat: seat.node or None),
            places.told(lambda seat: seat.gpu),
            told(factor[shown], 4),
            [None if np.isnan(factor[row]) else int(worst[row]) for row in shown],
            _whole(medians),
            _whole(cells[shown].ravel()),
        )


class _Places:
    """Where ranks were in each life: what was not told of one is as in the latest."""

    def __init__(self, seats: Sequence[Seat], ranks: Sequence[int], attempts: Sequence[int]) -> None:
        self._seats = {(one.rank, one.attempt): one for one in seats}
        self._latest = {one.rank: one for one in seats}
        self._ranks = ranks
        self._attempts = attempts

    def told(self, what: Callable[[Seat], str | None]) -> list[list[str | None]]:
        return [
            [what(self._seats.get((rank, attempt)) or self._latest[rank]) for rank in self._ranks]
            for attempt in self._attempts
        ]


def _nothing(grid: Grid) -> RankHeatAnswer:
    none: list[int | None] = [None] * grid.slots
    return RankHeatAnswer(
        run=None,
        measure="step",
        from_ms=grid.start_ms,
        step_ms=grid.width_ms,
        columns=grid.slots,
        ranks_known=0,
        steps_known=0,
        steps_read=0,
        ranks=[],
        attempts=[],
        column_attempt=none,
        pods=[],
        nodes=[],
        gpus=[],
        factor=[],
        worst_column=[],
        median_ms=none,
        cells_ms=[],
    )


def _whole(values: Floats) -> list[int | None]:
    known = np.isfinite(values)
    rounded = np.rint(np.where(known, values, 0)).astype(np.int64).tolist()
    if known.all():
        return rounded  # type: ignore[no-any-return]
    return [one if is_known else None for one, is_known in zip(rounded, known.tolist(), strict=True)]


def _within(params: Params, name: str, usual: int, most: int) -> int:
    asked = params.count(name) or usual
    if asked > most:
        raise RequestError(f'invalid parameter "{name}": {most:,} at most')
    return max(asked, 10)
