"""/api/tokens: tokens for people and programs, made and revoked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from trilens.model.errors import QueryCancelled, RequestError, TrilensError
from trilens.model.grants import grant_of
from trilens.model.identity import Right
from trilens.serve.params import read_body
from trilens.serve.routes import DETAIL, identity_of, route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.access_token import AccessToken
    from trilens.model.identity import Grant
    from trilens.model.query import QueryGuard
    from trilens.serve.access.known_names import KnownNames
    from trilens.serve.access.token_keeper import TokenKeeper
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute

_LATEST_MS = 253_402_300_799_999  # the end of the year 9999: nobody can show what is later
_MAX_BODY = 64 * 1024
_UNASKED = "this server lets in whoever is on its machine, and asks nobody for a token (see docs/security.md)"

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No clusters, or no teams, are all of them."""

    name: _Name
    rights: tuple[str, ...]
    clusters: tuple[_Name, ...] = ()
    teams: tuple[_Name, ...] = ()
    expires_ms: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)] | None = None  # never


class TokenAnswer(msgspec.Struct, frozen=True):
    """Null of clusters and teams is all of them; of times, never."""

    id: str
    name: str
    state: str  # valid, expired, revoked
    rights: tuple[str, ...]
    clusters: tuple[str, ...] | None
    teams: tuple[str, ...] | None
    created_ms: int | None
    created_by: str | None
    expires_ms: int | None
    revoked_ms: int | None
    revoked_by: str | None
    used_ms: int | None
    declared: bool  # in access.tokens_file


class MadeTokenAnswer(msgspec.Struct, frozen=True):
    secret: str  # the token itself, shown this once
    token: TokenAnswer


@dataclass(frozen=True, slots=True)
class TokensApi:
    """`is_asked` is False where nobody is asked for a token."""

    keeper: TokenKeeper
    known: KnownNames
    questions: Questions
    is_asked: bool

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/tokens", self.tokens, needs=Right.ADMIN),
            route("/api/tokens", self.make, "POST", needs=Right.ADMIN),
            route("/api/tokens/{id}/revoke", self.revoke, "POST", needs=Right.ADMIN),
        ]

    async def tokens(self, request: Request) -> Response:
        """Those that are valid; with `all`, those that were, too."""
        params = await self.questions.params(request)
        wants_all, now_ms = bool(params.first("all")), self.questions.now_ms()

        def read(_guard: object) -> list[TokenAnswer]:
            told = [token_answer(one, now_ms) for one in self.keeper.every()]
            return [one for one in told if wants_all or one.state == "valid"]

        return await self.questions.answer(request, read, self._notes())

    async def make(self, request: Request) -> Response:
        body = await read_body(request, _MAX_BODY)
        try:
            wanted = msgspec.json.decode(body, type=NewToken)
            grant = grant_of(wanted.rights, wanted.clusters, wanted.teams)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as e:
            raise RequestError(f"not a token: {e}") from e
        by, now_ms = identity_of(request).name, self.questions.now_ms()
        request.scope[DETAIL] = f"token {wanted.name!r}: {grant.text}"  # also where it is not made

        warnings = self._notes()

        def make(guard: QueryGuard) -> MadeTokenAnswer:
            warnings.extend(self._doubts(grant, guard))  # before there is a secret that could be lost
            token, text = self.keeper.make(wanted.name, grant, wanted.expires_ms, by)
            request.scope[DETAIL] = f"token {token.id} {token.name!r}: {grant.text}"
            return MadeTokenAnswer(text, token_answer(token, now_ms))

        return await self.questions.answer(request, make, warnings)

    def _doubts(self, grant: Grant, guard: QueryGuard) -> list[str]:
        """No reason not to make it, neither they nor that they cannot be told."""
        try:
            return self.known.doubts(grant, guard)
        except QueryCancelled:
            raise
        except TrilensError as e:
            return [f"whether anybody knows these teams and clusters could not be looked up: {e}"]

    async def revoke(self, request: Request) -> Response:
        id, by = request.path_params["id"], identity_of(request).name
        now_ms = self.questions.now_ms()

        def revoke(_guard: object) -> TokenAnswer:
            token = self.keeper.revoke(id, by)
            request.scope[DETAIL] = f"token {token.name!r}: {token.grant.text}"
            return token_answer(token, now_ms)

        return await self.questions.answer(request, revoke)

    def _notes(self) -> list[str]:
        return [] if self.is_asked else [_UNASKED]


def token_answer(token: AccessToken, now_ms: int) -> TokenAnswer:
    grant = token.grant
    ended = "revoked" if token.revoked_ms is not None else "expired"
    return TokenAnswer(
        token.id,
        token.name,
        "valid" if token.is_valid(now_ms) else ended,
        tuple(sorted(grant.rights)),
        tuple(sorted(grant.clusters)) if grant.clusters is not None else None,
        tuple(sorted(grant.teams)) if grant.teams is not None else None,
        token.created_ms,
        token.created_by or None,
        token.expires_ms,
        token.revoked_ms,
        token.revoked_by or None,
        token.used_ms,
        token.is_declared,
    )
