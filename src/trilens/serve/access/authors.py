"""Who did it, for what others read: a silence, a fix, an acknowledgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.identity import LOCAL
from trilens.serve.routes import identity_of

if TYPE_CHECKING:
    from starlette.requests import Request


def author(request: Request, claimed: str) -> str:
    """Whom the gate knows, whatever the request claims. Of those who share the server's own token, and of
    programs on this machine, nothing but the claim tells one from another."""
    identity = identity_of(request)
    if identity == LOCAL:
        return claimed
    if identity.how == "token":
        return f"{claimed} ({identity.name})" if claimed else identity.name
    return identity.name
