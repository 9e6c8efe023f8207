"""The web app: a few built files, the same for everybody. What they show they ask the API for."""

from __future__ import annotations

import gzip
import logging
import mimetypes
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from trilens.serve.envelope import accepts_gzip
from trilens.serve.routes import route

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

    from trilens.serve.routes import GuardedRoute

log = logging.getLogger(__name__)

# As web/src/pages/index.ts has them: each is answered with the same page, which reads its own address.
PAGES: Final = (
    "/",
    "/workloads",
    "/workloads/{cluster}/{namespace}/{kind}/{name}",
    "/fleet",
    "/fleet/gpus/{uuid}",
    "/money",
    "/experiments",
    "/services",
    "/incidents",
    "/incidents/{id}",
    "/explore",
    "/doctor",
)
_OPEN: Final = frozenset({path.split("/")[1] for path in PAGES[1:]} | {"assets", "icon.svg", "graph"})
_HEADERS: Final = {
    # Styles of elements are set by the charts; nothing else may come from anywhere but here.
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"  # the name of an asset changes with what is in it
_NOT_BUILT: Final = (
    "The web app is not built here. In a checkout: make web. The API and the commands work without it.\n"
)


class _File(NamedTuple):
    body: bytes
    packed: bytes
    media_type: str


def is_open(path: str) -> bool:
    """Whether it is answered without a token: the app itself is no secret, and has to ask for one."""
    return path == "/" or (path.startswith("/") and path[1:].partition("/")[0] in _OPEN)


class WebApp:
    def __init__(self) -> None:
        self._files = _read(files("trilens.serve").joinpath("web", "dist"))
        if "index.html" not in self._files:
            log.warning("the web app is not built: only the API is served; in a checkout, make web builds it")

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/assets/{name}", self.asset, needs=None),
            route("/icon.svg", self.icon, needs=None),
            route("/graph", self.graph, needs=None),
            *(route(path, self.page, needs=None) for path in PAGES),
        ]

    async def page(self, request: Request) -> Response:
        found = self._files.get("index.html")
        if found is None:
            return PlainTextResponse(_NOT_BUILT, 404)
        return _answer(request, found, "no-cache")

    async def asset(self, request: Request) -> Response:
        found = self._files.get(f"assets/{request.path_params['name']}")
        return _answer(request, found, _FOR_EVER) if found is not None else PlainTextResponse("gone\n", 404)

    async def icon(self, request: Request) -> Response:
        found = self._files.get("icon.svg")
        return _answer(request, found, "max-age=86400") if found is not None else Response(status_code=404)

    async def graph(self, request: Request) -> Response:
        """Where links in alerts lead, as a Prometheus has it."""
        given = request.query_params
        query = given.get("g0.expr") or given.get("query", "")
        return RedirectResponse(f"/explore?{urlencode({'query': query})}" if query else "/explore", 307)


def _read(folder: Traversable, prefix: str = "") -> dict[str, _File]:
    found: dict[str, _File] = {}
    if not folder.is_dir():
        return found
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _read(entry, f"{prefix}{entry.name}/")
        else:
            body = entry.read_bytes()
            media_type = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
            found[prefix + entry.name] = _File(body, gzip.compress(body, 9, mtime=0), media_type)
    return found


def _answer(request: Request, found: _File, kept: str) -> Response:
    headers = {**_HEADERS, "Cache-Control": kept, "Vary": "Accept-Encoding"}
    if accepts_gzip(request):
        return Response(found.packed, 200, {**headers, "Content-Encoding": "gzip"}, found.media_type)
    return Response(found.body, 200, headers, found.media_type)
