"""What a server that waits answers: its probes itself, all else by the one that works."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import aiohttp
import orjson
import yarl
from starlette.datastructures import Headers, QueryParams
from starlette.responses import PlainTextResponse, Response

from trilens.serve.access.callers import Callers
from trilens.serve.replicas.same_certificate import SameCertificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from trilens.settings.access import ProxySettings

log = logging.getLogger(__name__)

PASSED_ON: Final = "x-trilens-passed-on"  # by whom: nobody passes it on again
_CLIENTS: Final = "x-forwarded-for"  # where no proxy is set, which may have another header for them
_OF_ONE_CONNECTION: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_CONNECT_S: Final = 5.0
_OF_THE_LEADER: Final = frozenset(("/metrics/workloads", "/metrics/kubernetes"))
LEADS_HELP: Final = "Whether this server works: 0 where it waits for its turn."
_METRIC: Final = (
    f"# HELP trilens_replica_leads {LEADS_HELP}\n"
    "# TYPE trilens_replica_leads gauge\ntrilens_replica_leads 0\n"
)


class ClientLeft(Exception):
    pass


class _Body:
    """What a client sends, as it comes. aiohttp tells of an end before its time in words of its own."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self.is_too_large = False
        self.is_cut_off = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        while True:
            message = await self._receive()
            self.is_cut_off = message["type"] == "http.disconnect"
            size += len(message.get("body", b""))
            self.is_too_large = size > self._most
            if self.is_cut_off or self.is_too_large:
                raise ClientLeft
            yield message.get("body", b"")
            if not message.get("more_body"):
                return


class PassOn:
    """An ASGI app. `leader` says where the one that works is, None where nobody is known to."""

    def __init__(
        self,
        me: str,
        leader: Callable[[], str | None],
        max_body: int,
        cert: Path | None,
        proxy: ProxySettings | None = None,
        secret: str | None = None,
    ) -> None:
        """`secret` is that of the proxy, which the one that works asks this server for, too."""
        self._callers = Callers(proxy, secret)
        self._claims = proxy.claims if proxy is not None else frozenset()
        self._clients = proxy.client_header.lower() if proxy is not None else _CLIENTS
        self._own_word = [(proxy.secret_header.lower(), secret)] if proxy is not None and secret else []
        self._me = me
        self._leader = leader
        self._max_body = max_body
        self._certificate = SameCertificate(cert)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = self._own_answer(scope["path"], QueryParams(scope["query_string"]))
        if own is None and PASSED_ON in Headers(scope=scope):
            own = _unavailable("the server that this was passed on to does not work any more")
        leader = self._leader()
        if own is None and leader is None:
            own = _unavailable("no server works at the moment; one takes over within seconds")
        if own is not None:
            await own(scope, receive, send)
            return
        assert leader is not None
        await self._pass_on(leader, scope, receive, send)

    def _own_answer(self, path: str, params: QueryParams) -> Response | None:
        leader = self._leader()
        if path == "/healthz":
            return _json({"healthy": True})
        if path == "/-/healthy":
            return PlainTextResponse("Trilens is healthy.\n")
        if path == "/readyz":
            state = {"ready": leader is not None, "leads": False}  # where that one is, the Lease tells
            return _json(state, 200 if leader is not None else 503)
        if path == "/-/ready":
            if leader is not None:
                return PlainTextResponse("Trilens is ready: another server works.\n")
            return PlainTextResponse("Trilens is not ready; /readyz says why.\n", 503)
        if path == "/metrics":
            return PlainTextResponse(_METRIC)
        if path in _OF_THE_LEADER and params.get("own") == "true":
            return PlainTextResponse("")  # who scrapes all servers would have it of each
        return None

    async def _pass_on(self, leader: str, scope: Scope, receive: Receive, send: Send) -> None:
        is_begun = False

        async def begun(status: int, headers: list[tuple[bytes, bytes]]) -> None:
            nonlocal is_begun
            is_begun = True
            await send({"type": "http.response.start", "status": status, "headers": headers})

        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1")
        url = yarl.URL(f"{leader}{path}{'?' + query if query else ''}", encoded=True)
        body = _Body(receive, self._max_body)
        try:
            async with await self._asked(scope, url, body) as answer:
                await begun(answer.status, _kept(answer.raw_headers))
                await _until_gone(_copied(answer, send), receive)
        except ClientLeft:
            log.debug("a client left before it had its answer")
        except (aiohttp.ClientError, TimeoutError, OSError) as e:
            if body.is_cut_off:
                return
            if is_begun:  # what the client has is not whole, and it must see that
                raise
            if body.is_too_large:
                await PlainTextResponse("the request body is too large\n", 413)(scope, receive, send)
                return
            log.warning("the server that works does not answer", extra={"leader": leader, "error": str(e)})
            await _unavailable("the server that works does not answer")(scope, receive, send)

    async def _asked(self, scope: Scope, url: yarl.URL, body: _Body) -> aiohttp.ClientResponse:
        for shown in self._certificate.accepted():
            try:
                return await self._open_session().request(
                    scope["method"],
                    url,
                    headers=self._headers(scope),
                    data=aiohttp.AsyncIterablePayload(body) if _has_body(scope) else None,
                    allow_redirects=False,
                    ssl=shown,
                )
            except aiohttp.ServerFingerprintMismatch:  # nothing was sent yet
                continue
        raise aiohttp.ClientError("it does not show the certificate that this server has")

    def _headers(self, scope: Scope) -> list[tuple[str, str]]:
        named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        left_out, added = _OF_ONE_CONNECTION, [(PASSED_ON, self._me)]
        if not self._callers.of(scope, Headers(scope=scope)).is_trusted:
            # The one that works may trust this server: it must not get a stranger's word from it.
            left_out |= self._claims
            added += self._own_word  # without it, all strangers would be this server
        kept = [(name, value) for name, value in named if name not in left_out]
        clients = [value for name, value in kept if name == self._clients]
        if scope.get("client"):
            clients.append(scope["client"][0])
        others = [one for one in kept if one[0] != self._clients]
        return [*others, (self._clients, ", ".join(clients)), *added]

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),  # cookies are those of the clients, each its own
                connector=aiohttp.TCPConnector(limit=0),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
                # Who asks knows how long to wait, and answers that go on for ever are passed on too.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            )
        return self._session


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _kept(headers: tuple[tuple[bytes, bytes], ...]) -> list[tuple[bytes, bytes]]:
    lower = [(name.lower(), value) for name, value in headers]
    return [(name, value) for name, value in lower if name.decode("latin-1") not in _OF_ONE_CONNECTION]


async def _copied(answer: aiohttp.ClientResponse, send: Send) -> None:
    async for chunk in answer.content.iter_any():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(copying: Coroutine[None, None, None], receive: Receive) -> None:
    """The one that works is to stop, too, when nobody waits for the answer any more."""
    task = asyncio.create_task(copying)
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        await task
    finally:
        task.cancel()
        leaving.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _json(body: object, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")


def _unavailable(why: str) -> Response:
    body = {"status": "error", "errorType": "unavailable", "error": why}
    return Response(orjson.dumps(body), 503, {"Retry-After": "2"}, media_type="application/json")
