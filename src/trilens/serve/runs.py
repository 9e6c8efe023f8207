"""/api/runs: what training programs told of themselves, run by run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from trilens.ledger.answers.spending import run_spending
from trilens.lineage.contents import checkpoints
from trilens.lineage.history import History
from trilens.lineage.naming import meant
from trilens.lineage.origins import same_place
from trilens.lineage.standing import RunState, standings
from trilens.model.errors import NotFound, RequestError
from trilens.model.run import RunId
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.seen_runs import no_run
from trilens.serve.access.sight import sight_of
from trilens.serve.run_answers import RunPage
from trilens.serve.run_view import checkpoint_answer, run_answer, run_detail
from trilens.serve.run_workloads import doubts_of, workloads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from trilens.ledger.source import LedgerBook
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunFacts
    from trilens.model.workload import WorkloadKey
    from trilens.serve.access.seen_runs import RunsSeen
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions
    from trilens.serve.run_answers import RunAnswer

_SHOWN: Final = 100
_MOST_READ: Final = 10_000  # runs looked at for one page,
_AT_ONCE: Final = 100  # so many together,
_AT_ONCE_BY_WORKLOAD: Final = 1_000  # or so many where most of them are not looked at any closer
_NOTES: Final = 1_000
_ARTIFACT: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_TEXTS: Final = frozenset({"stacks"})


class RunsApi:
    def __init__(self, runs: RunsSeen, book: LedgerBook, questions: Questions) -> None:
        self._runs = runs
        self._book = book
        self._questions = questions

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        state, named, workload = _state(params), params.first("named"), _workload(params)
        experiment = params.first("experiment") or None
        since_ms = params.when_ms("from", 0, self._questions.now_ms()) if params.first("from") else None
        limit, skip = params.count("limit") or _SHOWN, params.count("next") or 0
        source = self._runs.by(sight_of(request))

        def read(guard: QueryGuard) -> RunPage:
            facts = source.runs(experiment=experiment, since_ms=since_ms, limit=_MOST_READ, guard=guard)
            if named:
                facts = meant(facts, named)
            found: list[RunAnswer] = []
            at = skip
            together = _AT_ONCE_BY_WORKLOAD if workload else min(_AT_ONCE, limit + 1)
            while at < len(facts):
                for one in self._answers(source, facts[at : at + together], guard, workload):
                    if one is not None and state in (None, one.state):
                        if len(found) == limit:
                            return RunPage(found, str(at))
                        found.append(one)
                    at += 1
            return RunPage(found, None)

        return await self._questions.answer(request, read)

    async def one(self, request: Request) -> Response:
        run, sight = request.path_params["run"], sight_of(request)
        source, book = self._runs.by(sight), seen_book(self._book, sight)
        warnings: list[str] = []

        def read(guard: QueryGuard) -> Any:
            facts = known_run(source, run, guard)
            history = History(source, facts.run, guard)
            warnings.extend(sight.warnings(doubts_of(history.processes, self._runs.workloads, guard)))
            (answer,) = self._answers(source, [facts], guard)
            assert answer is not None
            return run_detail(
                answer,
                facts,
                history,
                source.validations(facts.run, guard=guard),
                source.notes(facts.run, limit=_NOTES, guard=guard),
                source.artifacts(facts.run, guard=guard),
                run_spending(book, history.processes, self._questions.now_ms(), guard),
            )

        return await self._questions.answer(request, read, warnings)

    async def checkpoints(self, request: Request) -> Response:
        params = await self._questions.params(request)
        run, path = request.path_params["run"], params.first("path")
        source = self._runs.by(sight_of(request))

        def read(guard: QueryGuard) -> Any:
            facts = known_run(source, run, guard)
            return [
                checkpoint_answer(one)
                for one in checkpoints(History(source, facts.run, guard))
                if not path or any(same_place(path, told) for told in one.paths)
            ]

        return await self._questions.answer(request, read)

    async def artifact(self, request: Request) -> Response:
        """The very bytes: whoever asks has to know what they are."""
        run, asked = request.path_params["run"], request.path_params["artifact"]
        whose = _ARTIFACT.fullmatch(asked)
        runner, source = self._questions.runner, self._runs.by(sight_of(request))
        guard = runner.guard()

        def read() -> tuple[bytes, str, str]:
            facts = known_run(source, run, guard)
            rank, attempt, n = map(int, whose.groups()) if whose else (-1, -1, -1)
            found = source.artifact(facts.run, rank, attempt, n, guard=guard) if whose else None
            if found is None:
                raise NotFound(f"{run} has no artifact {asked!r}", hint=f"/api/runs/{run} has their list")
            return found.content, found.kind, found.name

        content, kind, name = await runner.run(request, guard, read)
        media_type = "text/plain; charset=utf-8" if kind in _TEXTS else "application/octet-stream"
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        headers = {
            "Content-Disposition": f'attachment; filename="{plain}"',
            "X-Content-Type-Options": "nosniff",
        }
        return Response(content, headers=headers, media_type=media_type)

    def _answers(
        self,
        source: RunSource,
        facts: Sequence[RunFacts],
        guard: QueryGuard,
        workload: Sequence[str] = (),
    ) -> list[RunAnswer | None]:
        """None for one that is not in the workload."""
        processes = source.processes([one.run for one in facts], guard=guard)
        workloads = workloads_of(processes, self._runs.workloads, guard)
        wanted = [one for one in facts if not workload or _is_any(workloads.get(one.run, []), workload)]
        stand = standings(wanted, processes, source, self._questions.now_ms(), guard)
        return [
            run_answer(one, stand[one.run], workloads.get(one.run, [])) if one.run in stand else None
            for one in facts
        ]


def known_run(source: RunSource, run: str, guard: QueryGuard) -> RunFacts:
    found = source.runs(run=RunId(run), limit=1, guard=guard)
    if not found:
        raise no_run(run)
    return found[0]


def _state(params: Params) -> RunState | None:
    written = params.first("state")
    try:
        return RunState(written) if written else None
    except ValueError as e:
        known = ", ".join(state.value for state in RunState)
        raise RequestError(f'invalid parameter "state": {written!r} is none of {known}') from e


def _workload(params: Params) -> list[str]:
    written = params.first("workload").split("/") if params.first("workload") else []
    if written and (not all(written) or len(written) != 4):
        raise RequestError('invalid parameter "workload"', hint="write CLUSTER/NAMESPACE/KIND/NAME")
    return written


def _is_any(found: Sequence[WorkloadKey], written: Sequence[str]) -> bool:
    cluster, namespace, kind, name = written
    return any(
        (one.cluster, one.namespace, one.name) == (cluster, namespace, name)
        and kind.lower() in (one.kind.lower(), f"{one.kind}.{one.group}".lower())
        for one in found
    )
