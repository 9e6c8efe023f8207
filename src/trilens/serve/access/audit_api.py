"""/api/audit: who did what, and who was not let do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from trilens.model.identity import Right
from trilens.serve.routes import route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.audit import AuditEntry
    from trilens.model.query import QueryGuard
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute

_DAY_MS: Final = 86_400_000
_AT_MOST: Final = 10_000


class AuditAnswer(msgspec.Struct, frozen=True):
    """Null is "there is none"; of `who`, that it was nobody known."""

    t_ms: int
    kind: str  # change, read, login, logout, refusal
    who: str | None
    how: str | None
    peer: str
    client: str | None
    method: str
    route: str | None
    object: str | None
    status: int  # of the answer
    detail: str | None
    count: int  # refusals of one kind within a minute are one entry
    until_ms: int | None


class AuditSource(Protocol):
    def latest(
        self, from_ms: int, to_ms: int, limit: int, *, who: str = "", guard: QueryGuard | None = None
    ) -> list[AuditEntry]: ...


@dataclass(frozen=True, slots=True)
class AuditApi:
    records: AuditSource
    questions: Questions

    def routes(self) -> list[GuardedRoute]:
        return [route("/api/audit", self.audit, needs=Right.ADMIN)]

    async def audit(self, request: Request) -> Response:
        params = await self.questions.params(request)
        from_ms, to_ms = params.span_ms(self.questions.now_ms(), _DAY_MS)
        limit, who = min(params.count("limit") or 100, _AT_MOST), params.first("who")

        def read(guard: QueryGuard) -> list[AuditAnswer]:
            found = self.records.latest(from_ms, to_ms, limit, who=who, guard=guard)
            return [_answer(one) for one in found]

        return await self.questions.answer(request, read)


def _answer(entry: AuditEntry) -> AuditAnswer:
    return AuditAnswer(
        entry.t_ms,
        entry.kind.value,
        entry.who or None,
        entry.how or None,
        entry.peer,
        entry.client or None,
        entry.method,
        entry.route or None,
        entry.object or None,
        entry.status,
        entry.detail or None,
        entry.count,
        entry.until_ms,
    )
