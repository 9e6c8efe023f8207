"""People whom a reverse proxy has found out already. Only the connection says whether it is that proxy."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.model.identity import Identity
    from trilens.serve.access.callers import Callers
    from trilens.serve.access.people import People
    from trilens.settings.access import ProxySettings

HOW: Final = "proxy"


class ProxyDoor:
    def __init__(self, proxy: ProxySettings, secret: str | None, callers: Callers, people: People) -> None:
        assert proxy.user_header is not None  # without one it is no door
        self._user, self._groups = proxy.user_header.lower(), proxy.groups_header.lower()
        self._secret_header = proxy.secret_header.lower()
        self._secret = secret.encode() if secret is not None else None
        self._claims = frozenset(name.encode("latin-1") for name in proxy.claims)
        self._callers = callers
        self._people = people

    def identify(self, scope: Scope, headers: Headers) -> Identity | None:
        users = headers.getlist(self._user)
        if not users:
            return None
        if not self._callers.of(scope, headers).is_trusted or not self._knows_secret(headers):
            # Whoever comes after must not see what a stranger claims.
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in self._claims]
            return None
        user = users[0].strip()
        if len(users) > 1 or not user:
            return None  # one of them is not the proxy's
        told = [one.strip() for line in headers.getlist(self._groups) for one in line.split(",")]
        return self._people.identity(user, frozenset(one for one in told if one), HOW)

    def _knows_secret(self, headers: Headers) -> bool:
        given = headers.get(self._secret_header, "").encode("latin-1", "replace")
        return self._secret is None or hmac.compare_digest(given, self._secret)
