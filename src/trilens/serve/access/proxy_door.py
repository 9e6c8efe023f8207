"""People whom a reverse proxy has found out already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.identity import NOTHING, Identity

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.serve.access.callers import Callers
    from trilens.serve.access.people import People
    from trilens.settings.access import ProxySettings

HOW: Final = "proxy"


class ProxyDoor:
    def __init__(self, proxy: ProxySettings, callers: Callers, people: People) -> None:
        assert proxy.user_header is not None  # without one it is no door
        self._user, self._groups = proxy.user_header.lower(), proxy.groups_header.lower()
        self._callers = callers
        self._people = people

    def identify(self, scope: Scope, headers: Headers) -> Identity | None:
        users = headers.getlist(self._user)
        if not users or not self._callers.of(scope, headers).is_trusted:
            return None
        user = users[0].strip()
        groups = headers.getlist(self._groups)
        if len(users) > 1 or len(groups) > 1 or not user:
            return None  # one of them is not the proxy's
        told = [one.strip() for line in groups for one in line.split(",")]
        found = self._people.identity(user, frozenset(one for one in told if one), HOW)
        return found or Identity(user, HOW, NOTHING)  # who asks is told so, and the audit says who it was
