"""/api/runs/{run}/steps, checkpoints, spikes and /api/samples: what went into a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from trilens.lineage.batches import Place, batch_page
from trilens.lineage.before_spikes import before, common
from trilens.lineage.contents import checkpoints, contents
from trilens.lineage.history import History
from trilens.lineage.sightings import seen
from trilens.lineage.spikes import spikes
from trilens.model.errors import NotFound, RequestError
from trilens.serve.access.sight import sight_of
from trilens.serve.lineage_answers import BatchPage, SpikesAnswer, StepDetail
from trilens.serve.lineage_view import (
    batch_answer,
    common_answer,
    contents_answer,
    sighting_answer,
    spike_answer,
    step_answers,
)
from trilens.serve.runs import known_run

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.lineage.contents import Checkpoint
    from trilens.model.query import QueryGuard
    from trilens.model.run_sums import Sighting
    from trilens.serve.access.seen_runs import RunsSeen
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

_RANKS: Final = 1_024  # in one answer, if not asked for otherwise
_BATCHES: Final = 1_000
_MOST_RECORDS: Final = 100_000  # of one step: every rank, in every attempt
_SIGHTINGS: Final = 1_000
_SPIKES: Final = 20
_BATCHES_OF_SPIKE: Final = 100
_STEPS_BEFORE: Final = 3
_LAST_STEP: Final = (1 << 63) - 1
_MOST_DIGITS: Final = 18


class LineageApi:
    def __init__(self, runs: RunsSeen, questions: Questions) -> None:
        self._runs = runs
        self._questions = questions

    async def step(self, request: Request) -> Response:
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        run, step = request.path_params["run"], _whole(request.path_params["step"], "step")
        rank = _number(params, "rank")
        limit, skip = params.count("limit") or _RANKS, params.count("next") or 0

        def read(guard: QueryGuard) -> StepDetail:
            facts = known_run(source, run, guard)
            history = History(source, facts.run, guard)
            found = source.steps(facts.run, step, step, rank=rank, limit=_MOST_RECORDS, guard=guard)
            if not found:
                raise NotFound(f"no step {step} of {run} is known{_of(rank)}", hint=_spans_text(history))
            page = found[skip : skip + limit]
            batches = source.batches(facts.run, step, step, rank=rank, limit=_MOST_RECORDS, guard=guard)
            more = str(skip + limit) if skip + limit < len(found) else None
            return StepDetail(facts.run, step, step_answers(history, page, batches), more)

        return await self._questions.answer(request, read)

    async def checkpoint(self, request: Request) -> Response:
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        run, step = request.path_params["run"], _whole(request.path_params["step"], "step")
        stretch = _number(params, "stretch")

        def read(guard: QueryGuard) -> Any:
            facts = known_run(source, run, guard)
            history = History(source, facts.run, guard)
            one, others = _of_step(history, step, stretch)
            return contents_answer(history, one, others, contents(history, one))

        return await self._questions.answer(request, read)

    async def batches(self, request: Request) -> Response:
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        run, step = request.path_params["run"], _whole(request.path_params["step"], "step")
        stretch, limit = _number(params, "stretch"), params.count("limit") or _BATCHES
        place = _place(params.first("next"))

        def read(guard: QueryGuard) -> BatchPage:
            facts = known_run(source, run, guard)
            history = History(source, facts.run, guard)
            one, _ = _of_step(history, step, stretch)
            page = batch_page(history, history.inside(one.record), place, limit)
            after = f"{page.after.part}.{page.after.step}" if page.after is not None else None
            return BatchPage([batch_answer(batch) for batch in page.batches], after)

        return await self._questions.answer(request, read)

    async def spikes(self, request: Request) -> Response:
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        run, value = request.path_params["run"], params.first("value") or "loss"
        first = _number(params, "first") or 0
        last = _number(params, "last")
        steps = _number(params, "window")
        limit = params.count("limit") or _SPIKES

        def read(guard: QueryGuard) -> SpikesAnswer:
            facts = known_run(source, run, guard)
            curve = source.curve(
                facts.run, value, first, last if last is not None else _LAST_STEP, guard=guard
            )
            if not curve:
                raise NotFound(
                    f"{run} told of no value {value!r} there", hint="a step's answer has its values"
                )
            found = spikes(curve)
            strongest = sorted(found, key=lambda one: (one.is_finite, -(one.spreads or 0.0)))[:limit]
            strongest.sort(key=lambda one: (one.peak.t_us, one.step))
            history = History(source, facts.run, guard)
            told = [before(history, one, _STEPS_BEFORE if steps is None else steps) for one in strongest]
            return SpikesAnswer(
                facts.run,
                value,
                len(curve),
                len(found),
                [spike_answer(one, _BATCHES_OF_SPIKE) for one in told],
                [common_answer(one) for one in common(told)],
            )

        return await self._questions.answer(request, read)

    async def sample(self, request: Request) -> Response:
        params = await self._questions.params(request)
        source = self._runs.by(sight_of(request))
        sample: str = request.path_params["sample"]
        run, dataset = params.first("run") or None, params.first("dataset") or None
        limit = params.count("limit") or _SIGHTINGS
        warnings: list[str] = []

        def read(guard: QueryGuard) -> Any:
            of_run = known_run(source, run, guard).run if run is not None else None
            found: list[Sighting] = []
            for one in _ids(sample):
                found += source.sightings(one, run=of_run, dataset=dataset, limit=limit + 1, guard=guard)
            if len(found) > limit:
                warnings.append(f"only the first {limit:,} batches with it are listed")
            found = found[:limit]
            facts = {
                one: told for one in {one.run for one in found} for told in source.runs(run=one, guard=guard)
            }
            return [sighting_answer(one, facts) for one in seen(source, found, guard)]

        return await self._questions.answer(request, read, warnings)


def _of_step(history: History, step: int, stretch: int | None) -> tuple[Checkpoint, list[Checkpoint]]:
    """The last one that was written well, and the others of that step."""
    every = checkpoints(history)
    of_step = [one for one in every if one.step == step]
    wanted = [one for one in of_step if stretch in (None, one.stretch)]
    if not wanted:
        steps = sorted({one.step for one in every})
        near = sorted(sorted(steps, key=lambda known: abs(known - step))[:5])
        there = f"those of steps {', '.join(map(str, near))} are near" if near else "it told of none"
        raise NotFound(f"no checkpoint of step {step} of {history.run} is known", hint=there)
    one = max(wanted, key=lambda one: (one.ok, one.stretch, one.start_ms))
    return one, [other for other in of_step if other is not one]


def _spans_text(history: History) -> str:
    if not history.stretches:
        return "none of its steps are known"
    return "known are " + ", ".join(
        f"{stretch.first_step} to {stretch.last_step}" for stretch in history.stretches[-5:]
    )


def _of(rank: int | None) -> str:
    return f" of rank {rank}" if rank is not None else ""


def _ids(sample: str) -> list[int | str]:
    """A text may look like a number: both are looked for."""
    digits = sample.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS:
        return [int(sample), sample]
    return [sample]


def _place(written: str) -> Place:
    if not written:
        return Place(0, 0)
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,18})", written)
    if found is None:
        raise RequestError(f'invalid parameter "next": {written!r} was not in an answer')
    return Place(int(found[1]), int(found[2]))


def _whole(text: str, name: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise RequestError(f"invalid {name}: cannot parse {text!r} to a number, 0 or more")
    return int(text)


def _number(params: Params, name: str) -> int | None:
    text = params.first(name)
    return _whole(text, f'parameter "{name}"') if text else None
