"""The ways to be known: each door looks at a request and says who it is, or that it cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trilens.model.access import carried_token, carries_token
from trilens.model.access_token import read_token
from trilens.model.identity import EVERYTHING, Identity
from trilens.serve.questions import clock_ms

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.serve.access.token_keeper import TokenKeeper


class Door(Protocol):
    """Called in the event loop for every request: nothing that waits."""

    def identify(self, scope: Scope, headers: Headers) -> Identity | None:
        """None where the request carries nothing that this door knows."""


class ServerToken:
    """The one token of the settings, which may do everything."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._identity = Identity("server token", "token", EVERYTHING)

    def identify(self, _scope: Scope, headers: Headers) -> Identity | None:
        return self._identity if carries_token(headers.get("authorization", ""), self._token) else None


class TokenDoor:
    """Tokens that were made for somebody, or that a file declares."""

    def __init__(self, keeper: TokenKeeper) -> None:
        self._keeper = keeper

    def identify(self, _scope: Scope, headers: Headers) -> Identity | None:
        carried = carried_token(headers.get("authorization", ""))
        given = read_token(carried.decode("utf-8", "surrogateescape")) if carried is not None else None
        token = self._keeper.find(given.id) if given is not None else None
        if given is None or token is None or not token.fits(given.secret) or not token.is_valid(clock_ms()):
            return None
        self._keeper.note_use(token)
        return Identity(f"token:{token.name}", f"token {token.id}", token.grant)
