"""The metric source that is not ours: an existing Prometheus, Thanos, Mimir or VictoriaMetrics."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

import aiohttp
import orjson
import yarl
from starlette.responses import Response

from trilens.model.errors import ConfigError, QueryCancelled, SourceError
from trilens.model.masking import without_passwords
from trilens.serve.leaving import client_gone
from trilens.serve.params import read_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from trilens.settings.endpoint import SourceSettings

_PASSED_ON: Final = ("content-type", "accept-encoding", "accept")
_PASSED_BACK: Final = ("content-type", "content-encoding", "vary")
_PROBE: Final = "/api/v1/query?query=1"  # every server of this kind answers it, from no data at all
_PROBE_TIMEOUT_S: Final = 3.0  # probes of ours give up after a few seconds themselves
_FRESH_S: Final = 2.0  # how long the outcome of a probe holds


class Trouble(NamedTuple):
    """Why the source does not answer, and since when it was seen not to."""

    reason: str
    since: datetime


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


class Upstream:
    """Sends API requests on as they came, with our credentials, and gives the answer back as it is."""

    def __init__(self, source: SourceSettings, max_body: int) -> None:
        assert source.url is not None
        self._base = source.url
        self.url = without_passwords(source.url)  # as it may be shown
        self._source = source
        self._max_body = max_body
        self._session: aiohttp.ClientSession | None = None
        self.trouble: Trouble | None = None
        self._probed_at = -_FRESH_S
        self._probing = asyncio.Lock()

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            auto_decompress=False,  # a compressed answer goes through as it is
            connector=aiohttp.TCPConnector(limit=64, ssl=self._source.tls()),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def forward(self, request: Request) -> Response:
        body = await read_body(request, self._max_body)
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["raw_path"].decode("latin-1")  # as it came: a decoded label name may hold a "?"
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        answer = await self._ask_for(
            request, request.method, f"{path}?{query}" if query else path, headers, body
        )
        passed = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return Response(answer.content, answer.status, passed)

    async def instant(self, query: str) -> dict[str, Any]:
        """The whole answer to a query of our own."""
        return await self._ask_for_us(_instant(query))

    async def range(self, query: str, start_ms: int, end_ms: int, step_ms: int) -> dict[str, Any]:
        """A query of our own over a span of time."""
        asked = {"query": query, "start": start_ms / 1000, "end": end_ms / 1000, "step": step_ms / 1000}
        return await self._ask_for_us(f"/api/v1/query_range?{urlencode(asked)}")

    async def alerts(self) -> list[dict[str, Any]]:
        """What it evaluates and is active there, as /api/v1/alerts has it."""
        answer = await self._ask("GET", "/api/v1/alerts", {}, b"", self._source.timeout.total_seconds())
        self._check(answer, quote=True)
        try:
            found: list[dict[str, Any]] = orjson.loads(answer.content)["data"]["alerts"]
        except (orjson.JSONDecodeError, LookupError, TypeError) as e:
            raise SourceError(f"the metric source {self.url} does not tell its alerts") from e
        return found or []

    async def _ask_for_us(self, path: str) -> dict[str, Any]:
        timeout_s = self._source.timeout.total_seconds()
        answer = await self._ask("GET", path, {}, b"", timeout_s)
        self._check(answer, quote=True)
        return self._read(answer)

    def _read(self, answer: _Answer) -> dict[str, Any]:
        try:
            found = orjson.loads(answer.content)
        except orjson.JSONDecodeError as e:
            raise SourceError(f"the metric source {self.url} answered with JSON that does not parse") from e
        if not _is_envelope(found):
            raise SourceError(f"the metric source {self.url} answered with JSON that is no answer to a query")
        envelope: dict[str, Any] = found
        return envelope

    async def check(self) -> Trouble | None:
        """Whether the source answers now, or did a moment ago: for probes, which come often."""
        async with self._probing:
            if time.monotonic() - self._probed_at >= _FRESH_S:
                reason = await self._probe()
                self._probed_at = time.monotonic()
                if reason is None:
                    self.trouble = None
                else:
                    since = datetime.now(UTC) if self.trouble is None else self.trouble.since
                    self.trouble = Trouble(reason, since)
        return self.trouble

    async def _probe(self) -> str | None:
        timeout_s = min(_PROBE_TIMEOUT_S, self._source.timeout.total_seconds())
        try:
            answer = await self._ask("GET", _PROBE, {}, b"", timeout_s)
            self._check(answer, quote=False)  # the outcome is told without a token, and the text is not ours
        except SourceError as e:
            return e.message
        return None if answer.status == 200 else f"the metric source {self.url} answered HTTP {answer.status}"

    async def _ask_for(
        self, request: Request, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> _Answer:
        """Ask on behalf of a client, for as long as it waits."""
        timeout_s = self._source.timeout.total_seconds()
        asking = asyncio.ensure_future(self._ask(method, path, headers, body, timeout_s))
        watcher = asyncio.ensure_future(client_gone(request))
        try:
            await asyncio.wait((asking, watcher), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise QueryCancelled("the client went away")
            answer = await asking
            self._check(answer, quote=True)
            return answer
        finally:
            watcher.cancel()
            asking.cancel()

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> _Answer:
        assert self._session is not None
        url = yarl.URL(self._base + path, encoded=True)
        try:
            sent = {"accept-encoding": "identity", **headers, **self._source.request_headers()}
            async with self._session.request(
                method,
                url,
                data=body or None,
                headers=sent,
                allow_redirects=False,  # our credentials are for this server and no other
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as answer:
                content = await answer.read()
        except TimeoutError as e:
            raise SourceError(
                f"the metric source {self.url} did not answer within {timeout_s:g} s",
                hint="ask for less, or raise source.timeout",
            ) from e
        except aiohttp.ClientError as e:
            reason = without_passwords(str(e))
            raise SourceError(
                f"cannot reach the metric source {self.url}: {reason}", hint="see source.url"
            ) from e
        except ConfigError as e:  # a secret's file is read anew each time, and may be gone
            raise SourceError(f"cannot ask the metric source {self.url}: {e.message}") from e
        return _Answer(answer.status, answer.headers, content)

    def _check(self, answer: _Answer, *, quote: bool) -> None:
        """What has the API's own shape is passed on, errors too; anything else is trouble with the source.

        `quote`: the error may repeat what the source said.
        """
        if answer.status in (401, 403):
            raise SourceError(
                f"the metric source {self.url} refused our credentials (HTTP {answer.status})",
                hint="see the source settings: bearer_token, username, tenant, cert_file",
            )
        if 300 <= answer.status < 400:
            target = without_passwords(answer.headers.get("location", "nowhere"))
            raise SourceError(
                f"the metric source {self.url} redirects to {target} (HTTP {answer.status})",
                hint="redirects are not followed; set source.url to where it really is",
            )
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            start = (
                answer.content[:200].decode("utf-8", "replace").strip()
                if quote and "content-encoding" not in answer.headers
                else ""
            )
            raise SourceError(
                f"the metric source {self.url} answered HTTP {answer.status}: {start or 'not JSON'}"
            )


def _instant(query: str) -> str:
    return f"/api/v1/query?{urlencode({'query': query})}"


def _is_envelope(found: object) -> bool:
    """Whether it is what /api/v1/query answers, as far as anybody here looks into it."""
    if not isinstance(found, dict):
        return False
    if found.get("status") != "success":
        return True
    data = found.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        return False
    if data.get("resultType") in ("scalar", "string"):
        return len(data["result"]) == 2
    return all(isinstance(s, dict) and isinstance(s.get("metric"), dict) for s in data["result"])
