"""/api/v1/write: remote write 1.0 and 2.0."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse

from trilens.model.errors import RequestError
from trilens.serve.params import read_body
from trilens.serve.routes import identity_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.collect.remote_write import RemoteWriteReceiver


class WriteApi:
    def __init__(
        self, receiver: RemoteWriteReceiver | None, threads: ThreadPoolExecutor, max_body: int
    ) -> None:
        self._receiver = receiver
        self._threads = threads
        self._max_body = max_body

    async def write(self, request: Request) -> Response:
        if self._receiver is None:
            raise RequestError(
                "this server keeps no samples: its queries go to another server",
                hint="send them there instead",
            )
        body = await read_body(request, self._max_body)
        result = await asyncio.get_running_loop().run_in_executor(
            self._threads,
            self._receiver.bound_to(identity_of(request).grant.clusters).receive,
            body,
            request.headers.get("content-type", ""),
            request.headers.get("content-encoding", ""),
        )
        return PlainTextResponse(result.rejected or "", result.http_status, result.headers())
