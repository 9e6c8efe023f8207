"""The page at `/`: ask a question, and see what is running."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.responses import HTMLResponse

from trilens.model.errors import TrilensError
from trilens.serve.page import Asked, Visit, render, template_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.serve.page import Overview


class Ask(Protocol):
    async def __call__(self, request: Request, query: str) -> dict[str, Any]:
        """The envelope that /api/v1/query would answer."""


class HomePage:
    def __init__(self, overview: Callable[[], Awaitable[Overview]], ask: Ask, *, has_token: bool) -> None:
        self._overview = overview
        self._ask = ask
        self._has_token = has_token

    async def show(self, request: Request) -> Response:
        given = request.query_params  # links to Prometheus, such as those in alerts, have it as g0.expr
        query = (given.get("query") or given.get("g0.expr", "")).strip()
        asked = await self._answer(request, query) if query else None
        visit = Visit(f"{request.url.scheme}://{request.url.netloc}", self._has_token, asked)
        overview = await self._overview()
        return HTMLResponse(await asyncio.to_thread(render, overview, visit), headers=_HEADERS)

    async def _answer(self, request: Request, query: str) -> Asked:
        try:
            envelope = await self._ask(request, query)
        except TrilensError as e:
            return Asked(query, {"status": "error", "error": str(e)})
        return Asked(query, envelope)


def _policy() -> str:
    """Nothing is loaded and nothing runs: only the page's own style, known by its hash."""
    found = re.search(r"<style>(.*?)</style>", template_text(), re.DOTALL)
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )


_HEADERS: Final = {
    "Content-Security-Policy": _policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
