"""Clients that hang up before they have their answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request


async def client_gone(request: Request) -> None:
    """Returns when the client has hung up; the request's body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
