"""HTTP GET for scrapes and discovery.

aiohttp, because it was the cheapest: fetching a 250 KB body over loopback cost 0.3 ms of CPU, against 2.0 ms
with httpx. It runs on asyncio's own loop: uvloop made no difference here. It also takes a fifth of a second
to load: the first request loads it, on the scraping thread, and a start does not wait for that.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens import __version__
from trilens.model.errors import ScrapeError, ScrapeLimitExceeded

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from multidict import CIMultiDict
    from yarl import URL

    from trilens.collect.http_config import HttpConfig

_MAX_REDIRECTS: Final = 10
_IDLE_CONNECTION_S: Final = 300.0  # longer than common scrape intervals: a connection serves many scrapes
_GZIP_WINDOW: Final = 31  # zlib's way to say: the gzip format
_UNLIMITED: Final = 1 << 62


class Response(NamedTuple):
    body: bytes
    content_type: str
    headers: CIMultiDict[str]


class HttpClient:
    """One per job: its connections are kept between scrapes. Belongs to the event loop that made it."""

    def __init__(self, config: HttpConfig) -> None:
        self._config = config
        tls = config.tls_config.context() if _needs_own_tls(config) else True
        self._tls: ssl.SSLContext | bool = tls
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_CONNECTION_S, ssl=self._tls)
            # Bodies are decompressed here and not by aiohttp: with a limit, and without a thread per chunk.
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"Trilens/{__version__}"},
                skip_auto_headers=("Accept", "Accept-Encoding"),
            )
        return self._session

    async def get(
        self, url: str, headers: dict[str, str], *, timeout_s: float, body_limit: int = 0, gzip: bool = True
    ) -> Response:
        """The body of a 200 answer; everything else is a ScrapeError that says what happened."""
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        sent = CIMultiDict(self._config.request_headers())
        sent.update(headers)
        sent["Accept-Encoding"] = "gzip" if gzip else "identity"
        try:
            async with asyncio.timeout(timeout_s):
                return await self._fetch(URL(url, encoded=True), sent, body_limit)
        except TimeoutError as e:
            raise ScrapeError(f"no complete answer within {timeout_s:g} s") from e
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise ScrapeError(f"GET {url}: {_reason(e)}") from e

    async def _fetch(self, url: URL, headers: CIMultiDict[str], body_limit: int) -> Response:
        import aiohttp

        async with self._open().get(
            url,
            headers=headers,
            allow_redirects=self._config.follow_redirects,
            max_redirects=_MAX_REDIRECTS,
            proxy=self._config.proxy_url,
            server_hostname=self._config.tls_config.server_name,
            timeout=aiohttp.ClientTimeout(),  # the caller's limit covers the whole exchange
        ) as response:
            if response.status != 200:
                raise ScrapeError(f"the server answered {response.status} {response.reason}")
            body = await (_read_limited(response, body_limit) if body_limit else response.read())
            encoding = response.headers.get("Content-Encoding", "identity").lower()
            if encoding == "gzip":
                body = _gunzip(body, body_limit)
            elif encoding != "identity":
                raise ScrapeError(f"the answer is in {encoding!r}, which was not asked for")
            content_type = response.headers.get("Content-Type", "")
            return Response(body, content_type, response.headers.copy())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _needs_own_tls(config: HttpConfig) -> bool:
    return config.tls_config != type(config.tls_config)()


def _reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        cause = error.os_error  # aiohttp's own text is made for programmers
        number = cause.errno or 0  # the resolver's are below zero, and its text is fine
        return f"cannot connect: {os.strerror(number) if number > 0 else cause.strerror or cause}"
    return str(error) or type(error).__name__


async def _read_limited(response: aiohttp.ClientResponse, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _gunzip(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = inflater.decompress(data, limit + 1 if limit else _UNLIMITED)
    except zlib.error as e:
        raise ScrapeError(f"the answer is not valid gzip: {e}") from e
    if limit and len(body) > limit:
        raise _too_large(limit)
    if not inflater.eof:
        raise ScrapeError("the gzip answer is cut short")
    return body


def _too_large(limit: int) -> ScrapeLimitExceeded:
    return ScrapeLimitExceeded("body_size_limit", limit, "the answer has more bytes")
