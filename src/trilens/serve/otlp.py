"""/v1/metrics and /v1/traces: OTLP over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from starlette.responses import Response

from trilens.collect.otlp.body import Encoding, encoding_of, write_status
from trilens.model.errors import RequestError, TrilensError
from trilens.serve.params import read_body
from trilens.serve.routes import DETAIL, identity_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from starlette.requests import Request


class OtlpReceiver(Protocol):
    def receive(
        self, body: bytes, encoding: Encoding, content_encoding: str, clusters: frozenset[str] | None
    ) -> bytes:
        """The answer's body, in the same encoding; what was taken is on disk. `clusters` are those that the
        sender may tell of, None all of them."""


class OtlpApi:
    """A receiver that is None: this server does not keep such things."""

    def __init__(
        self,
        metrics: OtlpReceiver | None,
        traces: OtlpReceiver | None,
        threads: ThreadPoolExecutor,
        max_body: int,
    ) -> None:
        self._metrics = metrics
        self._traces = traces
        self._threads = threads
        self._max_body = max_body

    async def metrics(self, request: Request) -> Response:
        return await self._taken(request, self._metrics)

    async def traces(self, request: Request) -> Response:
        return await self._taken(request, self._traces)

    async def _taken(self, request: Request, receiver: OtlpReceiver | None) -> Response:
        encoding = Encoding.JSON  # of what is said to a sender that we cannot understand
        try:
            encoding = encoding_of(request.headers.get("content-type", ""))
            if receiver is None:
                raise RequestError(
                    "this server keeps none of it: its queries go to another server",
                    hint="send it there instead",
                )
            body = await read_body(request, self._max_body)
            answer = await asyncio.get_running_loop().run_in_executor(
                self._threads,
                receiver.receive,
                body,
                encoding,
                request.headers.get("content-encoding", ""),
                identity_of(request).grant.clusters,
            )
        except TrilensError as error:
            request.scope[DETAIL] = str(error)  # for the audit, where it is a refusal
            # As OTLP wants it: a status in the sender's own encoding. 429 and 503 make it try again.
            headers = {"Retry-After": "5"} if error.http_status in (429, 503) else {}
            body = write_status(str(error), encoding)
            return Response(body, error.http_status, headers, encoding.value)
        return Response(answer, 200, media_type=encoding.value)
