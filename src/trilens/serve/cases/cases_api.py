"""/api/why: the verdicts on somebody; /api/case: all that they rest on, as one file.

By POST, which may run a command in containers, or by GET, which changes nothing.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from trilens.diagnose.bundle import write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.masked_names import masked_names
from trilens.diagnose.told import told
from trilens.diagnose.walk import why
from trilens.model.errors import RequestError
from trilens.serve.access.sight import sight_of
from trilens.serve.cases.case_answers import VerdictsAnswer
from trilens.serve.cases.seen_case import seen_case
from trilens.serve.cases.wish import MOST_MS, Wish
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.routes import DETAIL

if TYPE_CHECKING:
    from starlette.requests import Request

    from trilens.diagnose.case_file import CaseFile
    from trilens.serve.cases.gathering import Cases
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

_HOUR_MS: Final = 3_600_000


class CasesApi:
    def __init__(self, cases: Cases, questions: Questions) -> None:
        self._cases = cases
        self._questions = questions

    async def why(self, request: Request) -> Response:
        params = await self._questions.params(request)
        case = await gathered(self._cases, self._questions, request, params)
        runner = self._questions.runner

        def body() -> bytes:
            answer = msgspec.convert(told(case, why(Case(case))), VerdictsAnswer)
            return success(msgspec.json.encode(answer))

        packed = await runner.run(request, runner.guard(), lambda: pack(body(), accepts_gzip(request)))
        return packed_response(packed)

    async def case(self, request: Request) -> Response:
        params = await self._questions.params(request)
        masks = _truth(params, "mask_names")
        case = await gathered(self._cases, self._questions, request, params)
        runner = self._questions.runner

        def body() -> tuple[str, bytes]:
            handed = masked_names(case) if masks else case
            file = io.BytesIO()
            write_bundle(handed, file)
            return handed.subject.name, file.getvalue()

        name, content = await runner.run(request, runner.guard(), body)
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        headers = {"Content-Disposition": f'attachment; filename="trilens-{plain}.zip"'}
        return Response(content, headers=headers, media_type="application/zip")


async def gathered(cases: Cases, questions: Questions, request: Request, params: Params) -> CaseFile:
    """What a request asks about, in the server's loop."""
    wish = _wish(params, questions.now_ms())
    if wish.executes:
        if request.method != "POST":  # whose route needs the right 'fix', and is audited
            raise RequestError('"exec" runs a command in containers: it is taken by POST alone')
        request.scope[DETAIL] = f"nvidia-smi in containers of {wish.written}"
    runner = questions.runner
    guard = runner.guard()
    sight = sight_of(request)
    kept = await runner.run(request, guard, lambda: cases.read(wish, guard, sight))
    return seen_case(await cases.complete(kept), sight)


def _wish(params: Params, now_ms: int) -> Wish:
    written = params.first("subject")
    if not written:
        raise RequestError("subject must be given", hint="a workload, a pod, a node or an incident")
    from_ms, to_ms = params.span_ms(now_ms, _HOUR_MS)
    if to_ms - from_ms > MOST_MS:
        raise RequestError('invalid parameter "from": a case is about a week at most')
    namespace, executes = params.first("namespace") or None, _truth(params, "exec")
    return Wish(written, namespace, from_ms, min(to_ms, now_ms), executes)


def _truth(params: Params, name: str) -> bool:
    written = params.first(name) or "false"
    if written not in ("true", "false"):
        raise RequestError(f'invalid parameter "{name}": not a truth value: {written!r}')
    return written == "true"
