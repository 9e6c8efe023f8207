"""/api/v1/import/openmetrics and its twin for Prometheus text: samples of the past."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trilens.model.errors import RequestError
from trilens.serve.envelope import reply
from trilens.serve.params import Params, read_body
from trilens.serve.routes import DETAIL

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.collect.backfill import BackfillReceiver


class BackfillApi:
    def __init__(self, receiver: BackfillReceiver | None, threads: ThreadPoolExecutor, max_body: int) -> None:
        self._receiver = receiver
        self._threads = threads
        self._max_body = max_body

    async def openmetrics(self, request: Request) -> Response:
        return await self._take(request, openmetrics=True)

    async def prometheus(self, request: Request) -> Response:
        return await self._take(request, openmetrics=False)

    async def _take(self, request: Request, *, openmetrics: bool) -> Response:
        first_line = Params(request.query_params.multi_items()).count("first_line") or 1
        request.scope[DETAIL] = f"samples from line {first_line}"
        receiver = self._receiver
        if receiver is None:
            raise RequestError(
                "this server keeps no samples: its queries go to another server",
                hint="send them there instead",
            )
        body = await read_body(request, self._max_body)
        taken = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: receiver.take(body, openmetrics=openmetrics, first_line=first_line)
        )
        return reply(request, taken._asdict())
