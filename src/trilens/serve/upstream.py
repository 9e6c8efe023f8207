"""The metric source that is not ours: an existing Prometheus, Thanos, Mimir or VictoriaMetrics."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
import orjson
import yarl
from starlette.responses import StreamingResponse

from trilens.model.errors import ConfigError, QueryCancelled, SourceError
from trilens.model.masking import without_passwords
from trilens.serve.access.seen_series import seen_elsewhere
from trilens.serve.access.sight import sight_of
from trilens.serve.leaving import client_gone
from trilens.serve.params import read_body, read_params
from trilens.serve.routes import ROUTE

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.serve.runner import QueryRunner
    from trilens.settings.endpoint import SourceSettings

_PASSED_ON: Final = ("content-type", "accept-encoding", "accept")
_PASSED_BACK: Final = ("content-type", "content-encoding", "vary")
_PROBE: Final = "/api/v1/query?query=1"  # every server of this kind answers it, from no data at all
_PROBE_TIMEOUT_S: Final = 3.0  # probes of ours give up after a few seconds themselves
_FRESH_S: Final = 2.0  # how long the outcome of a probe holds
_AT_ONCE: Final = 64  # connections for queries, those of ours too
# Thanos and VictoriaMetrics leave out what does not answer, unless told: half a fleet is not the fleet.
_WHOLE: Final = {"partial_response": "false", "deny_partial_response": "1"}
_MOST_BYTES: Final = 256 << 20  # of an answer that is read whole
_QUOTED_BYTES: Final = 200


class Trouble(NamedTuple):
    """Why the source does not answer, and since when it was seen not to."""

    reason: str
    since: datetime


class Upstream:
    """Sends API requests on, with our credentials, and gives the answer back as it is."""

    def __init__(self, source: SourceSettings, max_body: int) -> None:
        assert source.url is not None
        self._base = source.url
        self.url = without_passwords(source.url)  # as it may be shown
        self._source = source
        self._max_body = max_body
        self._session: aiohttp.ClientSession | None = None
        self._of_probes: aiohttp.ClientSession | None = None  # slow queries may have all connections
        self.trouble: Trouble | None = None
        self._probed_at = -_FRESH_S
        self._probing = asyncio.Lock()

    async def start(self) -> None:
        tls = self._source.tls()
        self._session, self._of_probes = _session(_AT_ONCE, tls), _session(1, tls)

    async def stop(self) -> None:
        for session in (self._session, self._of_probes):
            if session is not None:
                await session.close()

    async def forward(self, runner: QueryRunner, request: Request) -> Response:
        asked = request.scope[ROUTE].path
        # As the route has it, however it was written; only a label's name is from who asks.
        path = asked.replace("{name}", quote(request.path_params.get("name", ""), safe=""))
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        sight = sight_of(request)
        if sight.is_whole:
            query = request.scope["query_string"].decode("latin-1")
            body = await read_body(request, self._max_body)
        else:
            params = await read_params(request, self._max_body)
            bound = partial(seen_elsewhere, asked, params, sight)
            query, body = urlencode((await runner.run(request, runner.guard(), bound)).pairs), b""
        method = request.method if sight.is_whole else "GET"
        asking = self._send(method, f"{path}?{query}" if query else path, headers, body)
        answer = await self._while_waited_for(request, asking)
        passed = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return StreamingResponse(_pieces(answer), answer.status, passed)

    async def instant(self, query: str, at_ms: int | None = None) -> dict[str, Any]:
        """The whole answer to a query of our own, of now unless another moment is named."""
        at = {"time": at_ms / 1000} if at_ms is not None else {}
        return await self._ask_for_us("query", {"query": query, **at})

    async def range(self, query: str, start_ms: int, end_ms: int, step_ms: int) -> dict[str, Any]:
        """A query of our own over a span of time."""
        asked = {"query": query, "start": start_ms / 1000, "end": end_ms / 1000, "step": step_ms / 1000}
        asked["nocache"] = 1  # else VictoriaMetrics moves the moments of longer ranges to those it remembers
        return await self._ask_for_us("query_range", asked)

    async def alerts(self) -> list[dict[str, Any]]:
        """What it evaluates and is active there, as /api/v1/alerts has it."""
        data = await self._data("alerts", {})
        try:
            return data["alerts"] or []
        except (LookupError, TypeError) as e:
            raise SourceError(f"the metric source {self.url} does not tell its alerts") from e

    async def rules(self) -> list[dict[str, Any]]:
        """The groups that it evaluates, as /api/v1/rules has them."""
        data = await self._data("rules", {})
        try:
            return data["groups"] or []
        except (LookupError, TypeError) as e:
            raise SourceError(f"the metric source {self.url} does not tell its rules") from e

    async def metric_names(self, selector: str | None, from_ms: int, to_ms: int) -> list[str]:
        """Of the series that match, or all, in a span of time."""
        span = {"start": str(from_ms / 1000), "end": str(to_ms / 1000)}
        asked = span if selector is None else {**span, "match[]": selector}
        names: list[str] = await self._data("label/__name__/values", asked) or []
        return names

    async def _data(self, what: str, asked: Mapping[str, Any]) -> Any:
        try:
            return (await self._told(what, asked))["data"]
        except (orjson.JSONDecodeError, LookupError, TypeError) as e:
            raise SourceError(f"the metric source {self.url} does not tell its {what.split('/')[0]}") from e

    async def _ask_for_us(self, what: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = await self._told(what, asked)
        except orjson.JSONDecodeError as e:
            raise SourceError(f"the metric source {self.url} answered with JSON that does not parse") from e
        if not _is_envelope(found):
            raise SourceError(f"the metric source {self.url} answered with JSON that is no answer to a query")
        envelope: dict[str, Any] = found
        return envelope

    async def _told(self, what: str, asked: Mapping[str, Any]) -> Any:
        """The whole of it, or SourceError; JSONDecodeError where it is no JSON."""
        path = f"/api/v1/{what}?{urlencode({**asked, **_WHOLE})}"
        _, content = await self._ask(path, self._source.timeout.total_seconds(), quote=True)
        found = orjson.loads(content)
        if isinstance(found, dict) and found.get("isPartial"):
            raise SourceError(
                f"the metric source {self.url} knows only a part of the answer now",
                hint="do all of its storage nodes answer?",
            )
        return found

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
            # The outcome is told without a token, and the text is not ours.
            status, content = await self._ask(_PROBE, timeout_s, quote=False, session=self._of_probes)
        except SourceError as e:
            return e.message
        if status != 200:
            return f"the metric source {self.url} answered HTTP {status}"
        if not _is_success(content):
            return f"the metric source {self.url} answered with JSON that is no answer to a query"
        return None

    async def _while_waited_for(
        self, request: Request, asking: Coroutine[Any, Any, aiohttp.ClientResponse]
    ) -> aiohttp.ClientResponse:
        """Whose body is still to be read."""
        timeout_s = self._source.timeout.total_seconds()
        task = asyncio.ensure_future(self._answered(asking, timeout_s, quote=True))
        watcher = asyncio.ensure_future(client_gone(request))
        try:
            await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise QueryCancelled("the client went away")
            return await task
        finally:
            watcher.cancel()
            task.cancel()

    async def _ask(
        self, path: str, timeout_s: float, *, quote: bool, session: aiohttp.ClientSession | None = None
    ) -> tuple[int, bytearray]:
        """For ourselves: the status, and the body, which is not without end."""
        asking = self._send("GET", path, {}, b"", session)
        with self._translated(timeout_s):
            async with asyncio.timeout(timeout_s):
                async with await self._answered(asking, timeout_s, quote=quote) as answer:
                    content = bytearray()
                    async for piece in answer.content.iter_any():
                        content += piece
                        if len(content) > _MOST_BYTES:
                            raise SourceError(
                                f"the metric source {self.url} answers with more than {_MOST_BYTES >> 20} MiB"
                            )
                    return answer.status, content

    async def _answered(
        self, asking: Coroutine[Any, Any, aiohttp.ClientResponse], timeout_s: float, *, quote: bool
    ) -> aiohttp.ClientResponse:
        """One that has the API's own shape, errors too; anything else is trouble with the source."""
        with self._translated(timeout_s):
            async with asyncio.timeout(timeout_s):
                answer = await asking
                try:
                    await self._check(answer, quote=quote)
                except BaseException:
                    answer.close()
                    raise
                return answer

    async def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        session: aiohttp.ClientSession | None = None,
    ) -> aiohttp.ClientResponse:
        session = session or self._session
        assert session is not None
        sent = {"accept-encoding": "identity", **headers, **self._source.request_headers()}
        return await session.request(
            method,
            yarl.URL(self._base + path, encoded=True),
            data=body or None,
            headers=sent,
            allow_redirects=False,  # our credentials are for this server and no other
            # For its next bytes: how long all of it takes is up to who reads it, too.
            timeout=aiohttp.ClientTimeout(sock_read=self._source.timeout.total_seconds()),
        )

    @contextmanager
    def _translated(self, timeout_s: float) -> Iterator[None]:
        try:
            yield
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

    async def _check(self, answer: aiohttp.ClientResponse, *, quote: bool) -> None:
        """`quote`: the error may repeat what the source said."""
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
            start = ""
            if quote and "content-encoding" not in answer.headers:
                start = (await answer.content.read(_QUOTED_BYTES)).decode("utf-8", "replace").strip()
            raise SourceError(
                f"the metric source {self.url} answered HTTP {answer.status}: {start or 'not JSON'}"
            )


def _session(connections: int, tls: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        auto_decompress=False,  # a compressed answer goes through as it is
        connector=aiohttp.TCPConnector(limit=connections, ssl=tls),
        skip_auto_headers=("Accept-Encoding", "User-Agent"),
    )


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """As they come: it may be larger than the memory here. What breaks off there breaks off here, too."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    finally:
        answer.close()


def _is_success(content: bytearray) -> bool:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and found.get("status") == "success" and _is_envelope(found)


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
