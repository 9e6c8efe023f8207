"""The metric source that is not ours: an existing Prometheus, Thanos, Mimir or VictoriaMetrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import yarl
from starlette.responses import Response

from trilens.model.errors import QueryCancelled, SourceError
from trilens.serve.params import read_body

if TYPE_CHECKING:
    from starlette.requests import Request

    from trilens.settings.endpoint import SourceSettings

_PASSED_ON: Final = ("content-type", "accept-encoding", "accept")
_PASSED_BACK: Final = ("content-type", "content-encoding", "vary")


class Upstream:
    """Sends API requests on as they came, with our credentials, and gives the answer back as it is."""

    def __init__(self, source: SourceSettings, max_body: int) -> None:
        assert source.url is not None
        self.url = source.url
        self._source = source
        self._max_body = max_body
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._source.timeout.total_seconds())
        self._session = aiohttp.ClientSession(
            timeout=timeout,
            auto_decompress=False,  # a compressed answer goes through as it is
            connector=aiohttp.TCPConnector(limit=64, ssl=self._source.tls()),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def forward(self, request: Request) -> Response:
        body = await read_body(request, self._max_body)
        asking = asyncio.ensure_future(self._ask(request, body))
        watcher = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait((asking, watcher), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise QueryCancelled("the client went away")
            return await asking
        finally:
            watcher.cancel()
            asking.cancel()

    async def _ask(self, request: Request, body: bytes) -> Response:
        assert self._session is not None
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers.setdefault("accept-encoding", "identity")
        headers.update(self._source.request_headers())
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["raw_path"].decode("latin-1")  # as it came: a decoded label name may hold a "?"
        url = yarl.URL(self.url + path + (f"?{query}" if query else ""), encoded=True)
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers, allow_redirects=False
            ) as answer:
                content = await answer.read()
        except TimeoutError as e:
            raise SourceError(
                f"{self.url} did not answer within {self._source.timeout.total_seconds():g} s",
                hint="ask for less, or raise source.timeout",
            ) from e
        except aiohttp.ClientError as e:
            raise SourceError(f"cannot reach the metric source {self.url}: {e}", hint="see source.url") from e
        self._check(answer, content)
        passed = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return Response(content, answer.status, passed)

    def _check(self, answer: aiohttp.ClientResponse, content: bytes) -> None:
        """What has the API's own shape is passed on, errors too; anything else is trouble with the source."""
        if answer.status in (401, 403):
            raise SourceError(
                f"the metric source {self.url} refused our credentials (HTTP {answer.status})",
                hint="see the source settings: bearer_token, username, tenant, cert_file",
            )
        if answer.content_type != "application/json":
            start = (
                content[:200].decode("utf-8", "replace").strip()
                if "content-encoding" not in answer.headers
                else ""
            )
            raise SourceError(
                f"the metric source {self.url} answered HTTP {answer.status}: {start or 'not JSON'}"
            )


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
