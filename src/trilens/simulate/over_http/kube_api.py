"""A simulated cluster's Kubernetes API over HTTP: discovery, get, list and watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web

from trilens.simulate.over_http.discovery import (
    VERSION,
    core_versions,
    group_named,
    groups,
    resources_of,
)
from trilens.simulate.over_http.media_types import metadata_list, metadata_only, wants_metadata_only
from trilens.simulate.over_http.pages import Pages
from trilens.simulate.over_http.refusals import Refusal, no_such_method, not_found
from trilens.simulate.over_http.requested import is_true, read_path
from trilens.simulate.over_http.watches import Watch

if TYPE_CHECKING:
    from trilens.simulate.objects import ObjectTable
    from trilens.simulate.over_http.requested import ResourcePath
    from trilens.simulate.over_http.watches import News

_JSON: Final = "application/json"


class KubeApi:
    """Reads the objects on the event loop that it serves on, and only there."""

    def __init__(self, objects: ObjectTable, news: News) -> None:
        self._objects = objects
        self._news = news
        self._pages = Pages(objects)

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.get("/version", self._version),
            *(web.get(probe, self._healthy) for probe in ("/healthz", "/livez", "/readyz")),
            web.route("*", "/api", self._answer),
            web.route("*", "/apis", self._answer),
            web.route("*", "/api/{rest:.*}", self._answer),
            web.route("*", "/apis/{rest:.*}", self._answer),
        ]

    async def _version(self, _request: web.Request) -> web.Response:
        return _json(VERSION)

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.method != "GET":
                raise no_such_method(request.method)
            return await self._read(request)
        except Refusal as e:
            return _json(e.status, e.code)

    async def _read(self, request: web.Request) -> web.StreamResponse:
        root, *parts = request.path.strip("/").split("/")
        match root, parts:
            case "api", []:
                return _json(core_versions(request.host))
            case "apis", []:
                return _json(groups())
            case "apis", [group]:
                return _discovered(group_named(group))
            case "api", [version]:
                return _discovered(resources_of("", version))
            case "apis", [group, version]:
                return _discovered(resources_of(group, version))
            case "api", [version, *rest]:
                return await self._read_objects(read_path("", version, rest), request)
            case _:
                group, version, *rest = parts
                return await self._read_objects(read_path(group, version, rest), request)

    async def _read_objects(self, path: ResourcePath, request: web.Request) -> web.StreamResponse:
        names_only = wants_metadata_only(request.headers.get("Accept", ""))
        if path.name:
            return self._get(path, names_only)
        if is_true(request.query, "watch"):
            watch = Watch(self._objects, self._news, path, request.query, names_only=names_only)
            return await _streamed(watch, request)
        page = self._pages.page(path, request.query)
        if names_only:
            return _json(metadata_list(page.metadata, [metadata_only(obj) for obj in page.items]))
        return _json(page.as_list(path.resource))

    def _get(self, path: ResourcePath, names_only: bool) -> web.Response:
        resource = path.resource
        obj = self._objects.get(resource.group, resource.plural, path.namespace or "", path.name)
        if obj is None:
            raise not_found(resource.group, resource.plural, path.name)
        return _json(metadata_only(obj) if names_only else obj)


async def _streamed(watch: Watch, request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": _JSON, "Cache-Control": "no-cache, private"})
    await answer.prepare(request)  # at once: a client waits for it before it counts as watching
    try:
        async for lines in watch.lines():
            await answer.write(lines)
        await answer.write_eof()
    except ConnectionError:
        pass  # whoever watched has left
    return answer


def _discovered(document: dict[str, Any] | None) -> web.Response:
    if document is None:
        return web.Response(status=404, text="404 page not found\n")
    return _json(document)


def _json(document: dict[str, Any], status: int = 200) -> web.Response:
    headers = {"Cache-Control": "no-cache, private"}
    return web.Response(body=orjson.dumps(document), status=status, content_type=_JSON, headers=headers)
