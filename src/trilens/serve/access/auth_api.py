"""/auth: who is logged in, how one can, and the way to the provider and back."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import HTMLResponse, RedirectResponse

from trilens.model.audit import AuditKind
from trilens.model.errors import Forbidden, LoginRefused, NotFound, TooManyRequests, TrilensError
from trilens.serve.access.gate import CALLER
from trilens.serve.access.oidc.attempt import LASTS_S
from trilens.serve.access.people import granted_nothing
from trilens.serve.access.trail import Deed
from trilens.serve.envelope import reply
from trilens.serve.routes import DETAIL, IDENTITY, route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.identity import Grant, Identity
    from trilens.serve.access.access import Access
    from trilens.serve.access.oidc.attempt import Attempts
    from trilens.serve.access.oidc.provider import Provider
    from trilens.serve.access.people import People
    from trilens.serve.access.session import Cookie, SessionDoor
    from trilens.serve.routes import GuardedRoute
    from trilens.settings.access import OidcSettings

log = logging.getLogger(__name__)

_LOGINS: Final = ("session", "terminal")  # the ways in that are a login, in a browser or carried from one

_STYLE: Final = (
    ":root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}"
    "body{max-width:36rem;margin:15vh auto;padding:0 1.2rem;overflow-wrap:anywhere}h1{font-size:1.4rem}"
)
_PAGE: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Trilens: login</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    f"<style>{_STYLE}</style></head>\n<body>"
    "<h1>You are not logged in</h1><p>%s</p>"
    '<p><a href="/auth/login">Log in again</a> · <a href="/">Trilens</a></p></body></html>\n'
)
_PAGE_MAY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'"
)


class GrantAnswer(msgspec.Struct, frozen=True):
    """Null is all of them."""

    rights: tuple[str, ...]
    clusters: tuple[str, ...] | None
    teams: tuple[str, ...] | None


class MeAnswer(msgspec.Struct, frozen=True):
    """`name` is null where nobody is logged in, `grants` empty also for who is known and may do nothing;
    `ways` are the ways in that this server has."""

    name: str | None
    how: str | None  # loopback, token, session, terminal, proxy
    grants: tuple[GrantAnswer, ...]
    ways: tuple[str, ...]  # token, oidc, proxy
    ends_ms: int | None  # of a login by oidc; null for other ways in


class TerminalAnswer(msgspec.Struct, frozen=True):
    token: str  # for `trilens login`, or as a bearer token
    ends_ms: int


@dataclass(frozen=True, slots=True)
class Login:
    """What people log in with, where there is a provider."""

    settings: OidcSettings
    provider: Provider
    attempts: Attempts
    kept: Cookie
    session: SessionDoor
    people: People


@dataclass(frozen=True, slots=True)
class AuthApi:
    access: Access
    ways: tuple[str, ...] = ()
    login_by: Login | None = None

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/auth/me", self.me, needs=None),
            route("/auth/login", self.login, needs=None),
            route("/auth/callback", self.callback, needs=None),
            route("/auth/logout", self.logout, "POST", needs=None),
            route("/auth/terminal", self.terminal, "POST", needs=None),
        ]

    async def me(self, request: Request) -> Response:
        identity: Identity | None = request.scope[IDENTITY]
        ends_ms = None
        if self.login_by is not None and identity is not None and identity.how in _LOGINS:
            ends_ms = self.login_by.session.ends_ms(request.headers)
        return reply(request, msgspec.to_builtins(_me(identity, self.ways, ends_ms)))

    async def login(self, request: Request) -> Response:
        by = self._by()
        attempt, kept = by.attempts.begin(request.query_params.get("next", "/"))
        try:
            url = await by.provider.login_url(attempt.state, attempt.nonce, attempt.challenge)
        except TrilensError as e:
            return self._failed(request, e)
        response = RedirectResponse(url, 303)
        by.kept.write(response, kept, LASTS_S)
        return response

    async def callback(self, request: Request) -> Response:
        by, site = self._by(), request.scope[CALLER].site
        logins = self.access.limits.logins
        if (wait_s := logins.wait_s(site)) is not None:
            return self._failed(request, TooManyRequests("too many logins failed", retry_after_s=wait_s))
        kept = by.kept.read(request.headers)
        try:
            attempt = by.attempts.take(kept, request.query_params.get("state", ""))
            user, groups = await self._who(by, request, attempt.verifier, attempt.nonce)
            response = RedirectResponse(attempt.to, 303)
            by.session.begin(response, user, groups)
        except TrilensError as e:
            if by.attempts.is_one(kept):  # else any link to here, on any page, would count against its reader
                logins.take(site)
            return self._failed(request, e)
        by.kept.delete(response)
        self._note(request, AuditKind.LOGIN, user, 303)
        return response

    async def logout(self, request: Request) -> Response:
        identity: Identity | None = request.scope[IDENTITY]
        response = reply(request, None)
        if self.login_by is not None and identity is not None and identity.how in _LOGINS:
            self.login_by.session.end(response, identity.name)
            self._note(request, AuditKind.LOGOUT, identity.name, 200)
            # Other servers, and this one when it starts again, know of it by that entry alone.
            await asyncio.to_thread(self.access.trail.settle)
        return response

    async def terminal(self, request: Request) -> Response:
        """The login of this browser, for commands: it may no more, and ends with it."""
        session, identity = self._by().session, request.scope[IDENTITY]
        carried, ends_ms = session.for_terminal(request.headers), session.ends_ms(request.headers)
        if carried is None or ends_ms is None or identity is None or identity.how != "session":
            raise Forbidden("only a browser that is logged in has a login for a terminal")
        self._note(request, AuditKind.LOGIN, identity.name, 200, "for a terminal")
        return reply(request, msgspec.to_builtins(TerminalAnswer(carried, ends_ms)))

    def _by(self) -> Login:
        if self.login_by is None:
            raise NotFound("nobody logs in here by a provider", hint="set access.oidc")
        return self.login_by

    async def _who(
        self, by: Login, request: Request, verifier: str, nonce: str
    ) -> tuple[str, frozenset[str]]:
        told = request.query_params
        if told.get("iss", by.settings.issuer) != by.settings.issuer:
            raise LoginRefused("this answer is of another provider")
        if "code" not in told:
            why = told.get("error_description") or told.get("error") or "it sent no code"
            raise LoginRefused(f"the provider refuses: {why[:300]}")
        claims = await by.provider.claims(told["code"], verifier, nonce)
        user = user_of(claims, by.settings.user_claim)
        groups = _groups(claims.get(by.settings.groups_claim))
        if by.people.identity(user, groups, "session") is None:
            raise granted_nothing(user)
        return user, groups

    def _failed(self, request: Request, error: TrilensError) -> Response:
        request.scope[DETAIL] = str(error)
        if error.http_status >= 500:
            log.warning("nobody can log in", extra={"error": str(error)})
        page, headers = _PAGE % escape(str(error)), {"Content-Security-Policy": _PAGE_MAY}
        response = HTMLResponse(page, error.http_status, headers)
        if isinstance(error, TooManyRequests):
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response

    def _note(self, request: Request, kind: AuditKind, who: str, status: int, detail: str = "") -> None:
        deed = Deed(request.method, request.url.path, "", status, detail)
        self.access.trail.note(kind, who, "oidc", request.scope[CALLER], deed)


def user_of(claims: dict[str, Any], name: str) -> str:
    user = claims.get(name)
    if not isinstance(user, str) or not user.strip():
        raise LoginRefused(f"the provider does not tell {name!r} of you", hint="see access.oidc.user_claim")
    if name == "email" and claims.get("email_verified") in (False, "false"):  # some write it as text
        raise LoginRefused("the provider has not verified your email address")
    return user.strip()


def _groups(told: Any) -> frozenset[str]:
    if isinstance(told, str):
        return frozenset({told})
    return frozenset(one for one in told if isinstance(one, str)) if isinstance(told, list) else frozenset()


def _me(identity: Identity | None, ways: tuple[str, ...], ends_ms: int | None) -> MeAnswer:
    if identity is None:
        return MeAnswer(None, None, (), ways, None)
    how = identity.how.partition(" ")[0]
    grants = tuple(_grant(one) for one in identity.grants if one.rights)
    return MeAnswer(identity.name, how, grants, ways, ends_ms)


def _grant(grant: Grant) -> GrantAnswer:
    return GrantAnswer(
        tuple(sorted(grant.rights)),
        tuple(sorted(grant.clusters)) if grant.clusters is not None else None,
        tuple(sorted(grant.teams)) if grant.teams is not None else None,
    )
