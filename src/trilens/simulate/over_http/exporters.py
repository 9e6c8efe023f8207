"""What a scraper finds in a simulated cluster: dcgm-exporter on each node, and programs' own metrics.

Thousands of ports would be unwise, so all of them answer on one, by path. Service discovery says which
(`__metrics_path__`), and gives each the `instance` that it would have on a port of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web

from trilens.simulate.world import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilens.simulate.world import World

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
DCGM_PORT: Final = 9400
DCGM_TARGETS: Final = "/sd/dcgm"
PROGRAM_TARGETS: Final = "/sd/programs"


class Exporters:
    """Reads the world on the event loop that it serves on, and only there."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.get(DCGM_TARGETS, self._dcgm_targets),
            web.get(PROGRAM_TARGETS, self._program_targets),
            web.get("/nodes/{node}/metrics", self._dcgm),
            web.get("/pods/{uid}/metrics", self._program),
        ]

    async def _dcgm_targets(self, request: web.Request) -> web.Response:
        return targets(
            target(request.host, f"/nodes/{node}/metrics", instance=f"{node}:{DCGM_PORT}", node=node)
            for node in self._world.nodes
        )

    async def _program_targets(self, request: web.Request) -> web.Response:
        return targets(
            target(
                request.host,
                f"/pods/{uid}/metrics",
                instance=f"{endpoint.pod}:{endpoint.port}",
                namespace=endpoint.namespace,
                pod=endpoint.pod,
            )
            for uid, endpoint in self._world.metrics_endpoints().items()
        )

    async def _dcgm(self, request: web.Request) -> web.Response:
        node = request.match_info["node"]
        return answered(request, node, lambda: exposition(self._world.dcgm_text(node)))

    async def _program(self, request: web.Request) -> web.Response:
        uid = request.match_info["uid"]
        return answered(request, uid, lambda: exposition(self._world.metrics_text(uid)))


def target(address: str, path: str, **labels: str) -> dict[str, Any]:
    return {"targets": [address], "labels": {"__metrics_path__": path, **labels}}


def targets(groups: Iterable[dict[str, Any]]) -> web.Response:
    return web.Response(body=orjson.dumps(list(groups)), content_type="application/json")


def answered(request: web.Request, name: str, answer: Callable[[], web.Response]) -> web.Response:
    """What `answer` gives, or what is seen of `name` where there is none, or where it is silent."""
    try:
        return answer()
    except KeyError:
        return web.Response(status=404, text=f"there is no {name}\n")
    except Silent:
        if request.transport is not None:
            request.transport.abort()  # as if nobody were there
        return web.Response(status=503)


def exposition(text: bytes) -> web.Response:
    return web.Response(body=text, headers={"Content-Type": _TEXT})
