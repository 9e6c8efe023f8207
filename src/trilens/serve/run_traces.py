"""/api/runs/{run}/traces: steps and checkpoints of the past as OTLP, for a collector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

from trilens.model.errors import RequestError
from trilens.serve.access.sight import sight_of
from trilens.serve.params import read_params
from trilens.serve.run_steps import whole_steps
from trilens.serve.runs import known_run

if TYPE_CHECKING:
    from starlette.requests import Request

    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_runs import RunsSeen
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

NEXT_STEP: Final = "Trilens-Next-Step"
_RECORDS: Final = 5_000  # in one answer, and the rest of the step that is in the middle
_LAST_STEP: Final = (1 << 63) - 1


class _Page(NamedTuple):
    body: bytes
    next_step: int | None


class RunTracesApi:
    def __init__(self, runs: RunsSeen, questions: Questions) -> None:
        self._runs = runs
        self._runner = questions.runner

    async def traces(self, request: Request) -> Response:
        """Whole steps, as many as fit; the header says where to go on, and is not there at the end."""
        params = await read_params(request, 0)
        run, first, last = (
            request.path_params["run"],
            _step(params, "first", 0),
            _step(params, "last", _LAST_STEP),
        )
        guard, source = self._runner.guard(), self._runs.by(sight_of(request))
        page = await self._runner.run(request, guard, lambda: _page(source, run, first, last, guard))
        headers = {NEXT_STEP: str(page.next_step)} if page.next_step is not None else {}
        return Response(page.body, headers=headers, media_type="application/x-protobuf")


def _page(source: RunSource, run: str, first: int, last: int, guard: QueryGuard) -> _Page:
    from trilens.collect.otlp.step_spans import trace_request, with_batches

    facts = known_run(source, run, guard)
    steps, next_step = whole_steps(source, facts.run, (first, last), _RECORDS, guard)
    end = last if next_step is None else next_step - 1
    limit = max(len(steps), 1) * 64  # batches of steps that accumulate gradients
    batches = source.batches(facts.run, first, end, limit=limit, guard=guard) if steps else []
    saved = [one for one in source.checkpoints(facts.run, guard=guard) if first <= one.step <= end]
    return _Page(trace_request([*with_batches(steps, batches), *saved]).SerializeToString(), next_step)


def _step(params: Params, name: str, default: int) -> int:
    text = params.first(name)
    if not text:
        return default
    if not re.fullmatch(r"\d{1,18}", text):
        raise RequestError(f'invalid parameter "{name}": {text!r} is no step')
    return int(text)
