"""/api/runs/{run}/steps and curve: many steps of a run in one answer, for whoever computes with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from trilens.model.errors import NotFound, RequestError
from trilens.serve.access.sight import sight_of
from trilens.serve.run_step_answers import CurveAnswer, StepsPage
from trilens.serve.run_view import told
from trilens.serve.runs import known_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId, StepRecord
    from trilens.serve.access.seen_runs import RunsSeen
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

    Told = TypeVar("Told", int, float)
    Shown = TypeVar("Shown")

_RECORDS: Final = 10_000  # in one answer, if not asked for otherwise
_MOST_RECORDS: Final = 100_000
_LAST_STEP: Final = (1 << 63) - 1


class RunStepsApi:
    def __init__(self, runs: RunsSeen, questions: Questions) -> None:
        self._runs = runs
        self._questions = questions

    async def steps(self, request: Request) -> Response:
        """Whole steps, as many as fit; of one that alone has more records, all that may be in an answer."""
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        run = request.path_params["run"]
        first = _step(params, "next", _step(params, "first", 0))
        last, rank = _step(params, "last", _LAST_STEP), _step(params, "rank", -1)
        limit = min(params.count("limit") or _RECORDS, _MOST_RECORDS)

        def read(guard: QueryGuard) -> StepsPage:
            facts = known_run(source, run, guard)
            of_rank = rank if rank >= 0 else None
            found, following = whole_steps(source, facts.run, (first, last), limit, guard, of_rank)
            return steps_page(facts.run, found, following)

        return await self._questions.answer(request, read)

    async def curve(self, request: Request) -> Response:
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        run, value = request.path_params["run"], params.first("value") or "loss"
        first, last = _step(params, "first", 0), _step(params, "last", _LAST_STEP)

        def read(guard: QueryGuard) -> CurveAnswer:
            facts = known_run(source, run, guard)
            curve = source.curve(facts.run, value, first, last, guard=guard)
            if not curve:
                hint = f"/api/runs/{facts.run}/steps has the values that it told"
                raise NotFound(f"{run} told of no value {value!r} there", hint=hint)
            return CurveAnswer(
                facts.run,
                value,
                curve.step.tolist(),
                curve.attempt.tolist(),
                (curve.t_us // 1000).tolist(),
                [*map(told, curve.mean.tolist())],
                [*map(told, curve.worst.tolist())],
                curve.worst_rank.tolist(),
            )

        return await self._questions.answer(request, read)


def steps_page(run: RunId, steps: Sequence[StepRecord], next_step: int | None) -> StepsPage:
    return StepsPage(
        run,
        [one.step for one in steps],
        [one.rank for one in steps],
        [one.attempt for one in steps],
        [one.n for one in steps],
        [one.start_us for one in steps],
        [one.duration_us for one in steps],
        [one.samples for one in steps],
        [one.tokens for one in steps],
        [one.epoch for one in steps],
        _columns([one.phases for one in steps], int),
        _columns([one.device_phases for one in steps], int),
        _columns([one.values for one in steps], told),
        str(next_step) if next_step is not None else None,
    )


def _columns(
    rows: Sequence[Mapping[str, Told]], shown: Callable[[Told], Shown]
) -> dict[str, list[Shown | None]]:
    names = sorted({name for row in rows for name in row})
    return {name: [shown(row[name]) if name in row else None for row in rows] for name in names}


def whole_steps(
    source: RunSource,
    run: RunId,
    bounds: tuple[int, int],
    limit: int,
    guard: QueryGuard,
    rank: int | None = None,
) -> tuple[list[StepRecord], int | None]:
    """So many records and no step in part, and the step to go on with, None at the end."""
    first, last = bounds
    steps = source.steps(run, first, last, rank=rank, limit=limit, guard=guard)
    if len(steps) < limit:
        return steps, None
    cut = steps[-1].step
    if cut > steps[0].step:
        return [one for one in steps if one.step < cut], cut
    more = source.steps(run, cut, cut, rank=rank, limit=_MOST_RECORDS, guard=guard)
    return more, cut + 1 if cut < last else None


def _step(params: Params, name: str, default: int) -> int:
    text = params.first(name)
    if not text:
        return default
    if not re.fullmatch(r"\d{1,18}", text):
        raise RequestError(f'invalid parameter "{name}": {text!r} is no number, 0 or more')
    return int(text)
