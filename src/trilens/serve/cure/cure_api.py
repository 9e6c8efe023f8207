"""/api/fixes: what could be done, what was and by whom; and doing it, as the policy allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from trilens.diagnose.case import Case
from trilens.diagnose.case_file import SubjectKind
from trilens.diagnose.cure.proposals import proposals
from trilens.diagnose.walk import why
from trilens.model.errors import Forbidden, NotFound, RequestError
from trilens.model.fix import SERVER, Deed, FixState, FixTarget
from trilens.serve.access.authors import author
from trilens.serve.access.seen_fixes import seen_fixes
from trilens.serve.access.sight import sight_of
from trilens.serve.cases.cases_api import gathered
from trilens.serve.cure.cure_answers import fix_answer, proposal_answer
from trilens.serve.cure.told import Told
from trilens.serve.routes import DETAIL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.fix import Fix
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.serve.cases.gathering import Cases
    from trilens.serve.cases.subjects import Meant
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

_MOST: Final = 1_000
_KEPT: Final = tuple(state for state in FixState if state is not FixState.DRY_RUN)
_SHOWN: Final = 100
_LONGEST_WAIT_MS: Final = 60_000


class Cure(Protocol):
    """May be asked from any loop."""

    async def dry_run(self, told: Told) -> Fix: ...

    async def do(self, told: Told) -> Fix: ...

    async def approve(self, id: str, by: str) -> Fix: ...

    async def undo(self, id: str, by: str) -> Fix: ...


class KeptFixes(Protocol):
    """Thread-safe."""

    def latest(
        self, limit: int, *, state: FixState | None = None, guard: QueryGuard | None = None
    ) -> Sequence[Fix]: ...


class CureApi:
    def __init__(
        self, cure: Cure | None, kept: KeptFixes, cases: Cases, workloads: Workloads, questions: Questions
    ) -> None:
        """`cure` is None where no cluster is watched."""
        self._cure = cure
        self._kept = kept
        self._cases = cases
        self._workloads = workloads
        self._questions = questions

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        limit, written = params.count("limit") or _SHOWN, params.first("state")
        if written and written not in _KEPT:
            raise RequestError(f'invalid parameter "state": write one of {", ".join(_KEPT)}')
        state = FixState(written) if written else None
        if limit > _MOST:
            raise RequestError(f'invalid parameter "limit": at most {_MOST:,}')

        sight = sight_of(request)

        def read(guard: QueryGuard) -> object:
            most = limit if sight.is_whole else _MOST
            found = seen_fixes(
                self._kept.latest(most, state=state, guard=guard), self._workloads, sight, guard
            )
            return [fix_answer(one, can_undo=_may(one.deed, sight)) for one in found[:limit]]

        return await self._questions.answer(request, read)

    async def proposals(self, request: Request) -> Response:
        params = await self._questions.params(request)
        case = await gathered(self._cases, self._questions, request, params)
        return await self._questions.answer(
            request, lambda _guard: [proposal_answer(one) for one in proposals(case, why(Case(case)))]
        )

    async def tell(self, request: Request) -> Response:
        params = await self._questions.params(request)
        request.scope[DETAIL] = f"{params.first('deed')} {params.first('subject')}"
        deed, sight = _deed(params), sight_of(request)
        _check_may(deed, sight)
        cure = self._able()
        runner, guard = self._questions.runner, self._questions.runner.guard()
        subject, namespace = params.first("subject"), params.first("namespace") or None
        if not subject:
            raise RequestError("subject must be given", hint="a workload, a pod or a node")

        def find() -> Meant:
            subjects = self._cases.subjects.seen_by(sight)
            return subjects.find(subject, namespace, self._questions.now_ms(), guard)

        meant = await runner.run(request, guard, find)
        told = Told(
            deed,
            _target(meant, deed),
            _by(request, params),
            params.first("why"),
            params.first("source"),
            _annotations(params) if deed is Deed.ANNOTATE else {},
            min(params.duration_ms("wait") or 0, _LONGEST_WAIT_MS) / 1000,
        )
        does = params.first("do") or "false"
        if does not in ("true", "false"):
            raise RequestError(f'invalid parameter "do": not a truth value: {does!r}')
        return await self._shown(request, await (cure.do(told) if does == "true" else cure.dry_run(told)))

    async def approve(self, request: Request) -> Response:
        params = await self._questions.params(request)
        await self._check_own(request)
        return await self._shown(
            request, await self._able().approve(request.path_params["id"], _by(request, params))
        )

    async def undo(self, request: Request) -> Response:
        params = await self._questions.params(request)
        await self._check_own(request)
        return await self._shown(
            request, await self._able().undo(request.path_params["id"], _by(request, params))
        )

    async def _check_own(self, request: Request) -> None:
        """Raises NotFound, as where there is none; Forbidden where it is one's own, and not one's to do."""
        id, sight = request.path_params["id"], sight_of(request)
        if sight.is_whole:
            return
        guard = self._questions.runner.guard()

        def find() -> list[Fix]:
            known = [one for one in self._kept.latest(_MOST, guard=guard) if one.id == id]
            return seen_fixes(known, self._workloads, sight, guard)

        found = await self._questions.runner.run(request, guard, find)
        if not found:
            raise NotFound(f"there is no fix {id!r}", hint="trilens fix log lists them")
        _check_may(found[0].deed, sight)

    def _able(self) -> Cure:
        if self._cure is None:
            raise RequestError("no cluster is watched", hint="name one in kubernetes.clusters")
        return self._cure

    async def _shown(self, request: Request, fix: Fix) -> Response:
        request.scope[DETAIL] = f"{fix.deed} {fix.target}: {fix.state}"
        return await self._questions.answer(request, lambda _guard: fix_answer(fix))


def _deed(params: Params) -> Deed:
    try:
        return Deed(params.first("deed"))
    except ValueError as e:
        raise RequestError(f'invalid parameter "deed": write one of {", ".join(Deed)}') from e


def _may(deed: Deed, sight: Sight) -> bool:
    """Annotations may say whose a workload is (`ownership`), and so move what it costs to another team."""
    return deed is not Deed.ANNOTATE or sight.teams is None


def _check_may(deed: Deed, sight: Sight) -> None:
    if not _may(deed, sight):
        raise Forbidden(
            "annotations may say whose a workload is: who is bound to teams may not change them",
            hint="ask who sees the whole fleet",
        )


def _by(request: Request, params: Params) -> str:
    by = author(request, params.first("by"))
    if by == SERVER:  # in the record it says that nobody told it to
        raise RequestError(f'invalid parameter "by": {by!r} is what the server calls itself')
    return by


def _target(meant: Meant, deed: Deed) -> FixTarget:
    """The very one that was found: one that is gone may have left its name to another."""
    target = _named(meant, deed)
    if target.namespace and not target.uid and meant.is_gone:
        raise NotFound(f"{target} is gone, and no more than its name is known", hint="name one that is there")
    return target


def _named(meant: Meant, deed: Deed) -> FixTarget:
    subject = meant.subject
    if subject.kind is SubjectKind.NODE:
        return FixTarget(subject.cluster, "", "Node", "", subject.name)
    if subject.kind is SubjectKind.POD and deed is not Deed.RESTART:
        uid = meant.pod.uid if meant.pod is not None else ""
        return FixTarget(subject.cluster, "", "Pod", subject.namespace, subject.name, uid)
    if meant.history is None:
        raise RequestError(f"{meant.written} is in no workload that could be restarted")
    key = meant.history.record.key
    return FixTarget(key.cluster, key.group, key.kind, key.namespace, key.name, key.uid)


def _annotations(params: Params) -> dict[str, str]:
    """`NAME=VALUE` each; an empty value takes it away."""
    found = {}
    for text in params.every("set"):
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise RequestError(f'invalid parameter "set": {text!r} is not NAME=VALUE')
        found[name] = value
    if not found:
        raise RequestError('"set" must be given', hint="set=NAME=VALUE")
    return found
