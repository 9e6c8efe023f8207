"""An app that is asked with an intake token, for tests of what takes things in without a door before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.identity import Grant, Identity, Right
from trilens.serve.routes import IDENTITY

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def sent_by(app: ASGIApp, *clusters: str) -> ASGIApp:
    """With a token for these clusters, or for all."""
    identity = Identity("a token", "token", Grant(frozenset({Right.INTAKE}), frozenset(clusters) or None))

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        scope[IDENTITY] = identity
        await app(scope, receive, send)

    return known
