"""What answers under which path, and who may ask for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from trilens.model.errors import Forbidden
from trilens.model.grants import for_right
from trilens.model.identity import Identity, Right

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

IDENTITY = "trilens.identity"  # where the gate puts it in a request's scope
ROUTE = "trilens.route"  # and which route took it
DETAIL = "trilens.detail"  # what the audit is to say of it besides
NOTE = "trilens.note"  # says in the audit what came of it once it was answered


class GuardedRoute(Route):
    """`needs` is None for what anybody may have. `narrowed`: the answer is cut down to what the asker may
    see; whoever may not see the whole fleet is refused everywhere else."""

    def __init__(
        self, path: str, handler: Any, methods: Sequence[str], needs: Right | None, narrowed: bool
    ) -> None:
        super().__init__(path, handler, methods=methods)
        self.needs = needs
        self.narrowed = narrowed

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = self
        if self.needs is not None and scope["method"] in (self.methods or ()):
            scope[IDENTITY] = _checked(scope[IDENTITY], self.needs, self.narrowed)
        await super().handle(scope, receive, send)


def route(
    path: str, handler: Any, *methods: str, needs: Right | None = Right.READ, narrowed: bool = False
) -> GuardedRoute:
    return GuardedRoute(path, handler, methods or ("GET",), needs, narrowed)


def identity_of(request: Request) -> Identity:
    identity: Identity = request.scope[IDENTITY]
    return identity


def note_of(request: Request) -> Callable[[int, str], None]:
    """For what goes on after the answer, and fails then: takes the status and the detail of an entry more."""
    note: Callable[[int, str], None] = request.scope[NOTE]
    return note


def may_read_all(identity: Identity | None) -> bool:
    """Where a route is for anybody, and says more to who may read and is bound to nothing."""
    grant = for_right(identity.grants, Right.READ) if identity is not None else None
    return grant is not None and grant.is_whole_fleet


def _checked(identity: Identity, needs: Right, narrowed: bool) -> Identity:
    """With what this one may see where that right is needed."""
    grant = for_right(identity.grants, needs) if identity.more else identity.grant
    if grant is None or not grant.allows(needs):
        has = ", ".join(sorted(identity.rights)) or "nothing"
        raise Forbidden(f"{identity.name} may not do this: it needs {needs.value!r}, and has {has}")
    if identity.more:
        identity = replace(identity, grant=grant, more=())
    if not narrowed and not grant.is_whole_fleet and needs is not Right.INTAKE:
        raise Forbidden(
            f"{identity.name} sees {_seen(identity)} only, and this answer is of the whole fleet",
            hint="ask with a token that is not bound to teams or clusters",
        )
    return identity


def _seen(identity: Identity) -> str:
    grant = identity.grant
    parts = [("team", grant.teams), ("cluster", grant.clusters)]
    return " and ".join(f"{kind} {', '.join(sorted(names))}" for kind, names in parts if names is not None)
