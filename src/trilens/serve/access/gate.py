"""Who may come in: whom a door knows; where there is no door, on loopback, only programs of this machine.

A web page in a browser on this machine can reach loopback too. Two things keep it out: its requests carry
the page's own name in Host when it tricks DNS into pointing at 127.0.0.1, and a foreign Origin when it posts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import Response

from trilens.model.access import names_known_host
from trilens.model.audit import AuditKind
from trilens.model.errors import Forbidden, RequestError, TooManyRequests, Unidentified
from trilens.model.identity import LOCAL, NOTHING, Identity, Right
from trilens.serve.access.headers import with_cors, with_hygiene
from trilens.serve.access.origins import SAFE_METHODS, Origins
from trilens.serve.access.people import granted_nothing
from trilens.serve.access.trail import Deed
from trilens.serve.envelope import failure
from trilens.serve.routes import DETAIL, IDENTITY, NOTE, ROUTE
from trilens.serve.web_app import is_open

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from trilens.serve.access.access import Access
    from trilens.serve.access.callers import Caller
    from trilens.serve.access.limits import Buckets
    from trilens.serve.routes import GuardedRoute
    from trilens.settings.server import ServerSettings

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})  # of probes, which carry no token
CALLER: Final = "trilens.caller"
_LOGGING_IN: Final = "/auth/"  # of these anybody may ask
_REMEMBERED_HOSTS: Final = 64
_TURNED_AWAY: Final = (401, 403, 429)


class Gate:
    """ASGI middleware that turns away what may not come in, and says of the others who they are."""

    def __init__(
        self, app: ASGIApp, server: ServerSettings, access: Access, intake: frozenset[str] = frozenset()
    ) -> None:
        """`intake` are the paths that samples and records are sent to."""
        self._app = app
        self._intake = intake
        self._access = access
        self._origins = Origins(server)
        self._hosts = frozenset(host.lower() for host in server.allowed_hosts)
        self._seen_hosts: set[str] = set()  # known by experience: a client sends the same one every time
        self._is_https = server.is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = with_hygiene(send, is_https=self._is_https)
        headers = Headers(scope=scope)  # a copy, with what is taken out now: the doors look for themselves
        caller = scope[CALLER] = self._access.callers.of(scope, headers)
        if not caller.is_trusted:
            self._access.callers.take_out_claims(scope)
        if scope["path"] in OPEN_PATHS:
            await self._pass_probe(scope, receive, send, headers, caller)
            return
        if is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        if self._origins.is_shared(headers):
            send = with_cors(send, headers["origin"])
            if scope["method"] == "OPTIONS":  # a preflight carries no credentials; it is not run
                await Response(status_code=204)(scope, receive, send)
                return
        identity = self._identify(scope, headers)
        scope[IDENTITY] = identity
        try:
            self._check(scope, headers, identity, caller)
        except RequestError as refused:
            self._note(scope, identity, caller, refused.http_status, str(refused))
            await _turned_away(refused, headers)(scope, receive, send)
            return
        await self._pass(scope, receive, send, identity, caller)

    async def _pass_probe(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, caller: Caller
    ) -> None:
        """Anybody may ask, and who is known is told more: so a wrong credential is a guess here, too."""
        identity = self._identify(scope, headers) if self._comes_by_its_name(headers) else None
        scope[IDENTITY] = identity
        if identity is None and "authorization" in headers:
            wrong = Unidentified(self._access.wish)
            self._note(scope, None, caller, wrong.http_status, str(wrong))
            try:
                _take(self._access.limits.failures, caller.site)
            except TooManyRequests as refused:
                await _turned_away(refused, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _identify(self, scope: Scope, headers: Headers) -> Identity | None:
        may_nothing: Identity | None = None
        for door in self._access.doors:
            if (identity := door.identify(scope, headers)) is not None:
                if identity.grant is not NOTHING:
                    return identity
                may_nothing = may_nothing or identity  # who may be known by another door, too
        return may_nothing if self._access.doors else LOCAL

    def _check(self, scope: Scope, headers: Headers, identity: Identity | None, caller: Caller) -> None:
        """Raises RequestError where it may not come in."""
        limits = self._access.limits
        if identity is None:
            _take(limits.failures, caller.site)
            if not scope["path"].startswith(_LOGGING_IN):
                raise Unidentified(self._access.wish)
        else:
            is_sending = scope["path"] in self._intake
            _take(limits.intake if is_sending else limits.requests, f"{identity.how} {identity.name}")
            if identity.grant is NOTHING and not scope["path"].startswith(_LOGGING_IN):
                raise granted_nothing(identity.name)
            if is_sending:
                self._access.callers.sent(caller)
        if not self._comes_by_its_name(headers):
            raise Forbidden(
                f"unexpected Host {headers['host']!r}; add it to server.allowed_hosts if it is meant"
            )
        if scope["method"] not in SAFE_METHODS and (why := self._origins.refusal(identity, headers)):
            raise Forbidden(why)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity | None, caller: Caller
    ) -> None:
        status = 500
        scope[NOTE] = partial(self._note, scope, identity, caller)

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watching)
        finally:
            del scope[NOTE]  # which holds the scope: it would be garbage until somebody looks for that
            if status in _TURNED_AWAY or _is_audited(scope):
                self._note(scope, identity, caller, status, scope.get(DETAIL, ""))

    def _note(
        self, scope: Scope, identity: Identity | None, caller: Caller, status: int, detail: str
    ) -> None:
        route: GuardedRoute | None = scope.get(ROUTE)
        named = ", ".join(f"{name}={value}" for name, value in scope.get("path_params", {}).items())
        deed = Deed(
            scope["method"],
            route.path if route is not None else "",
            named if route is not None else scope["path"],
            status,
            detail,
        )
        kind = _kind(scope["method"], status)
        who, how = (identity.name, identity.how) if identity is not None else ("", "")
        self._access.trail.note(kind, who, how, caller, deed)

    def _comes_by_its_name(self, headers: Headers) -> bool:
        """Where nobody is asked who they are, only what names this machine is of it."""
        return bool(self._access.doors) or self._known_host(headers.get("host", "localhost").lower())

    def _known_host(self, host: str) -> bool:
        if host in self._seen_hosts:
            return True
        known = names_known_host(host, self._hosts)
        if known and len(self._seen_hosts) < _REMEMBERED_HOSTS:
            self._seen_hosts.add(host)
        return known


def _is_audited(scope: Scope) -> bool:
    """What changes something for others, but not samples and records that come in; and all that is for
    admins: a backup that is fetched has everything in it."""
    route: GuardedRoute | None = scope.get(ROUTE)
    if route is None or scope["method"] not in (route.methods or ()):
        return False
    return route.needs is Right.ADMIN or (route.needs is Right.FIX and scope["method"] not in SAFE_METHODS)


def _kind(method: str, status: int) -> AuditKind:
    if status in _TURNED_AWAY:
        return AuditKind.REFUSAL
    return AuditKind.READ if method in SAFE_METHODS else AuditKind.CHANGE


def _take(buckets: Buckets, key: str) -> None:
    wait_s = buckets.take(key)
    if wait_s is not None:
        raise TooManyRequests("too many requests", retry_after_s=wait_s)


def _turned_away(refused: RequestError, headers: Headers) -> Response:
    response = failure(refused)
    if isinstance(refused, Unidentified):
        # To a page's own request a browser would answer Basic with a dialog of its own.
        basic = "" if headers.get("sec-fetch-dest") == "empty" else ', Basic realm="trilens"'
        response.headers["WWW-Authenticate"] = f'Bearer realm="trilens"{basic}'
    return response
