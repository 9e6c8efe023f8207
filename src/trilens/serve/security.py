"""Who may ask. A token where there is one; on loopback without one, only programs of this machine.

A web page in a browser on this machine can reach loopback too. Two things keep it out: its requests carry
the page's own name in Host when it tricks DNS into pointing at 127.0.0.1, and a foreign Origin when it posts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from trilens.model.access import carries_token, names_known_host
from trilens.serve.web_app import is_open

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from trilens.settings.server import ServerSettings

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})  # probes carry no token
_REMEMBERED_HOSTS: Final = 64
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Gate:
    """ASGI middleware that turns away what may not come in."""

    def __init__(self, app: ASGIApp, server: ServerSettings, token: str | None) -> None:
        self._app = app
        self._token = token.encode() if token is not None else None
        self._hosts = frozenset(host.lower() for host in server.allowed_hosts)
        self._seen_hosts: set[str] = set()  # known by experience: a client sends the same one every time
        self._origins = frozenset(origin.lower().rstrip("/") for origin in server.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        shared = origin is not None and origin.lower() in self._origins
        refusal = None
        if shared and scope["method"] == "OPTIONS":
            refusal = Response(status_code=204)  # a preflight carries no credentials; it is answered, not run
        else:
            refusal = self._refusal(scope["method"], headers, origin, shared)
        if shared:
            send = _with_cors(send, str(origin))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, method: str, headers: Headers, origin: str | None, shared: bool) -> Response | None:
        if self._token is not None:
            if not carries_token(headers.get("authorization", ""), self._token):
                # To a page's own request a browser would answer Basic with a dialog of its own.
                basic = "" if headers.get("sec-fetch-dest") == "empty" else ', Basic realm="trilens"'
                challenge = {"WWW-Authenticate": f'Bearer realm="trilens"{basic}'}
                return _refuse(
                    401, "this server needs its token: send it as Authorization: Bearer", challenge
                )
        elif not self._known_host(headers.get("host", "localhost").lower()):
            return _refuse(
                403, f"unexpected Host {headers['host']!r}; add it to server.allowed_hosts if it is meant"
            )
        if method not in _SAFE_METHODS and not shared and _cross_site(headers, origin):
            return _refuse(403, "refused: a page of another site may not post here (see server.cors_origins)")
        return None

    def _known_host(self, host: str) -> bool:
        if host in self._seen_hosts:
            return True
        known = names_known_host(host, self._hosts)
        if known and len(self._seen_hosts) < _REMEMBERED_HOSTS:
            self._seen_hosts.add(host)
        return known


def _cross_site(headers: Headers, origin: str | None) -> bool:
    if origin is None:
        return headers.get("sec-fetch-site") == "cross-site"
    return origin.partition("://")[2].lower() != headers.get("host", "").lower()


def _refuse(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = {
        "status": "error",
        "errorType": "unauthorized" if status == 401 else "forbidden",
        "error": message,
    }
    return Response(orjson.dumps(body), status, headers, "application/json")


def _with_cors(send: Send, origin: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Methods"] = "GET, POST, OPTIONS"
            headers["Access-Control-Allow-Headers"] = "Accept, Authorization, Content-Type, Origin"
            headers["Access-Control-Expose-Headers"] = "Date"
            headers.add_vary_header("Origin")
        await send(message)

    return sending
