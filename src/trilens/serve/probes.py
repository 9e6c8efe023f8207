"""/healthz, /readyz, Prometheus's /-/healthy and /-/ready; /-/reload; /metrics and its pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import orjson
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import PlainTextResponse, Response

from trilens.serve.envelope import JSON, accepts_gzip, pack, packed_response
from trilens.serve.routes import IDENTITY, may_read_all
from trilens.serve.self_metrics import exposition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from trilens.serve.self_metrics import SelfMetrics


class Readiness(NamedTuple):
    """Whether to send requests here, and what there is to know: damage, a read-only disk, the scrapes."""

    ready: bool
    details: Mapping[str, object]
    lacks: str = ""  # in a word, for anybody: which part does not work


class Probes:
    def __init__(
        self,
        readiness: Callable[[], Awaitable[Readiness]],
        reload: Callable[[], Awaitable[None]],
        metrics: SelfMetrics,
    ) -> None:
        self._readiness = readiness
        self._reload = reload
        self._metrics = metrics

    async def healthz(self, _request: Request) -> Response:
        return Response(b'{"healthy":true}', media_type=JSON)

    async def readyz(self, request: Request) -> Response:
        """Names of clusters, errors and paths are for who may read all of it, and not for a stranger."""
        state = await self._readiness()
        told: dict[str, object] = {"ready": state.ready}
        if may_read_all(request.scope.get(IDENTITY)):
            told |= state.details
        elif state.lacks:
            told["lacks"] = state.lacks
        return Response(orjson.dumps(told), 200 if state.ready else 503, media_type=JSON)

    async def healthy(self, _request: Request) -> Response:
        return PlainTextResponse("Trilens is healthy.\n")

    async def ready(self, _request: Request) -> Response:
        if (await self._readiness()).ready:
            return PlainTextResponse("Trilens is ready.\n")
        return PlainTextResponse("Trilens is not ready; /readyz says why.\n", 503)

    async def reload(self, _request: Request) -> Response:
        await self._reload()
        return Response()

    async def metrics(self, request: Request) -> Response:
        return await _exposed(self._metrics.registry, request)

    async def workload_metrics(self, request: Request) -> Response:
        return await _exposed(self._metrics.workloads, request)

    async def kubernetes_metrics(self, request: Request) -> Response:
        gzip = accepts_gzip(request)
        packed = await asyncio.to_thread(lambda: pack(self._metrics.kubernetes(), gzip))
        return packed_response(packed, CONTENT_TYPE_PLAIN_0_0_4)


async def _exposed(registry: CollectorRegistry, request: Request) -> Response:
    accept, gzip = request.headers.get("accept", ""), accepts_gzip(request)

    def work() -> tuple[tuple[bytes, bool], str]:
        text, content_type = exposition(registry, accept)
        return pack(text, gzip), content_type

    return packed_response(*await asyncio.to_thread(work))  # it asks the store how large it is
