"""Requests to a cluster's API server: whole answers, and the lines of a watch."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import msgspec

from trilens.collect.http_connection import explain
from trilens.collect.kubernetes.tls import TlsContexts
from trilens.collect.kubernetes.wire import Status, Unreadable, decode
from trilens.model.errors import ConfigError, KubeApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trilens.collect.kubernetes.access import Access

JSON: Final = "application/json"
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 60.0  # between two pieces of an answer; the server itself gives up after as long
_BODY_LIMIT: Final = 512 * 1024**2
_LINE_LIMIT: Final = 16 * 1024**2  # etcd takes no object of more than some MiB
_ERROR_LIMIT: Final = 64 * 1024
_AGENT: Final = "trilens"

GONE: Final = 410
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
_UNAUTHORIZED: Final = 401
_WELL: Final = (200, 201, 202)


class _Sent(NamedTuple):
    """What goes with a request."""

    method: str = "GET"
    body: bytes | None = None
    body_type: str = JSON


_NOTHING_SENT: Final = _Sent()


class HistoryLost(KubeApiError):
    """A watch cannot go on from where it was: everything must be read again."""


class WatchSilent(KubeApiError):
    """A watch on which nothing came for long: it may be dead without knowing."""


class KubeApi:
    """As one user. Every failure is a KubeApiError. Belongs to one event loop; `close` it there."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._tls = TlsContexts()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = JSON) -> bytes:
        patience = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
        async with self._answer(path, query or {}, accept, patience) as answer:
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > _BODY_LIMIT:
                    raise KubeApiError(f"the answer to {path} is larger than {_BODY_LIMIT >> 20} MiB")
            return bytes(body)

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        body_type: str = JSON,
    ) -> Any:
        """Changes something; what the server answers. Never sent twice but where it was refused (401)."""
        patience = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
        sent = _Sent(method, msgspec.json.encode(body) if body is not None else None, body_type)
        async with self._answer(path, query or {}, JSON, patience, sent) as answer:
            content = await answer.content.read()
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError as e:
            raise KubeApiError(f"the answer to {method} {path} is not JSON") from e

    @asynccontextmanager
    async def lines(
        self, path: str, query: Mapping[str, str], *, silence_s: float, accept: str = JSON
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer that goes on. WatchSilent when nothing comes for so long."""
        patience = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        async with self._answer(path, query, accept, patience) as answer:
            yield _lines(answer.content)

    @asynccontextmanager
    async def socket(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A conversation in both directions, as running a command in a container is one."""
        try:
            entry = await self._access.entry()
            async with self._open_session().ws_connect(
                entry.server + path,
                params=query,
                headers=entry.headers,
                protocols=(protocol,),
                ssl=self._tls.current(entry.tls),
                server_hostname=entry.server_name,
                proxy=entry.proxy,
            ) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as e:
            raise KubeApiError(
                f"the API server answered {e.status} {e.message}".rstrip(), status=e.status
            ) from e
        except (aiohttp.ClientError, OSError) as e:
            raise KubeApiError(f"no answer from the API server: {_reason(e)}") from e
        except ConfigError as e:
            raise KubeApiError(str(e)) from e

    @asynccontextmanager
    async def _answer(
        self,
        path: str,
        query: Mapping[str, str],
        accept: str,
        patience: aiohttp.ClientTimeout,
        sent: _Sent = _NOTHING_SENT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            answer = await self._send(path, query, accept, patience, sent)
            try:
                yield answer
            finally:
                answer.close()  # a watch is left in the middle; its connection is of no further use
        except aiohttp.SocketTimeoutError as e:
            raise WatchSilent(f"nothing came for {patience.sock_read:g} s") from e
        except (aiohttp.ClientError, TimeoutError, OSError) as e:
            raise KubeApiError(f"no answer from the API server: {_reason(e)}") from e
        except ConfigError as e:
            raise KubeApiError(str(e)) from e

    async def _send(
        self,
        path: str,
        query: Mapping[str, str],
        accept: str,
        patience: aiohttp.ClientTimeout,
        sent: _Sent,
    ) -> aiohttp.ClientResponse:
        renewed = False
        while True:
            entry = await self._access.entry()
            headers = [*entry.headers, ("Accept", accept), ("Accept-Encoding", "identity")]
            if sent.body is not None:
                headers.append(("Content-Type", sent.body_type))
            answer = await self._open_session().request(
                sent.method,
                entry.server + path,
                params=query,
                data=sent.body,
                headers=headers,
                ssl=self._tls.current(entry.tls),
                server_hostname=entry.server_name,
                proxy=entry.proxy,
                timeout=patience,
                allow_redirects=False,
            )
            if answer.status in _WELL:
                return answer
            try:
                if answer.status == _UNAUTHORIZED and not renewed:
                    self._access.refused(entry)
                    renewed = True
                    continue
                raise await _refusal(answer)
            finally:
                answer.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Each watch holds a connection for as long as it lasts, so there is no limit to set.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, headers={"User-Agent": _AGENT}, trust_env=False
            )
        return self._session


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(rest) > _LINE_LIMIT:
            raise HistoryLost(f"a watch event is larger than {_LINE_LIMIT >> 20} MiB")
    if rest:
        raise KubeApiError("the watch ended in the middle of an event")


async def _refusal(answer: aiohttp.ClientResponse) -> KubeApiError:
    body = await answer.content.read(_ERROR_LIMIT)
    try:
        said = decode(body, Status).message
    except Unreadable:  # a proxy in between speaks HTML
        said = ""
    message = said or f"the API server answered {answer.status} {answer.reason or ''}".rstrip()
    if answer.status == _UNAUTHORIZED:
        message = f"the API server does not accept the credentials (401 {said or answer.reason})"
    return KubeApiError(message, status=answer.status, retry_after_s=_retry_after_s(answer))


def _retry_after_s(answer: aiohttp.ClientResponse) -> float | None:
    """Kubernetes says it in seconds."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _reason(error: Exception) -> str:
    """With the address where one was tried; aiohttp's own text names objects of the program."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{error.host}:{error.port}: {explain(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {explain(error.os_error)}"
    return explain(error)
