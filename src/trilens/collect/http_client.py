"""HTTP GET for scrapes and discovery.

Almost all of it goes straight to the target (`direct_http`). A proxy, a redirect and a user in the URL are
left to aiohttp, which takes twice the CPU, and a fifth of a second to load: the first such request loads it.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import io
import ssl
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from trilens import __version__
from trilens.collect.body_buffer import ReceiveMemory
from trilens.collect.direct_http import DirectHttp
from trilens.collect.http_answer import Answer, HttpFailure, too_large
from trilens.collect.http_connection import explain
from trilens.collect.http_request import Request, build_request
from trilens.model.errors import ScrapeError
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    import aiohttp

    from trilens.collect.http_config import HttpConfig

_MAX_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_IDLE_CONNECTION_S: Final = 300.0  # longer than common scrape intervals: a connection serves many scrapes
_MAX_PREPARED: Final = 4096  # targets come and go; what is forgotten is made again
_GZIP_WINDOW: Final = 31  # zlib's way to say: the gzip format
_UNLIMITED: Final = 1 << 62
_PIECE: Final = 1 << 20
_CUT_SHORT: Final = "the gzip answer is cut short"

_Headers = list[tuple[str, str]]


class Response(NamedTuple):
    body: bytes
    content_type: str


class _Prepared(NamedTuple):
    made_of: tuple[_Headers, dict[str, str], bool]
    url: str
    headers: _Headers
    request: Request | None  # none where aiohttp is needed


class HttpClient:
    """One per job: its connections are kept between scrapes. Belongs to the event loop that uses it."""

    def __init__(self, config: HttpConfig, memory: ReceiveMemory | None = None) -> None:
        """`memory` may be that of all clients of the same event loop."""
        self._config = config
        tls = config.tls_config
        own_tls = tls.context() if tls != type(tls)() else None
        self._tls: ssl.SSLContext | None = own_tls
        self._direct = DirectHttp(
            lambda: own_tls or _default_tls(),
            memory if memory is not None else ReceiveMemory(),
            server_name=tls.server_name,
            idle_s=_IDLE_CONNECTION_S,
            reach=config.reach,
        )
        self._prepared: dict[str, _Prepared] = {}
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, url: str, headers: dict[str, str], *, timeout_s: float, body_limit: int = 0, gzip: bool = True
    ) -> Response:
        """The body of a 200 answer; everything else is a ScrapeError that says what happened."""
        try:
            prepared = self._prepare(url, headers, gzip)
            async with asyncio.timeout(timeout_s):
                answer = await self._fetch(prepared, body_limit)
        except TimeoutError as e:
            raise ScrapeError(f"no complete answer within {timeout_s:g} s") from e
        except (HttpFailure, ValueError) as e:
            raise ScrapeError(without_passwords(f"GET {url}: {e}")) from e
        return _response(answer, body_limit)

    async def close(self) -> None:
        await self._direct.close()
        if self._session is not None:
            await self._session.close()

    def _prepare(self, url: str, own: dict[str, str], gzip: bool) -> _Prepared:
        """Made once for a URL, and again when something about it changes, as a secret that is renewed."""
        made_of = self._config.request_headers(), own.copy(), gzip
        known = self._prepared.get(url)
        if known is not None and known.made_of == made_of:
            return known
        if len(self._prepared) >= _MAX_PREPARED:
            self._prepared.clear()
        headers = _merged(*made_of)
        direct = self._config.proxy_url is None and not _has_user(url)
        prepared = _Prepared(made_of, url, headers, build_request(url, headers) if direct else None)
        self._prepared[url] = prepared
        return prepared

    async def _fetch(self, prepared: _Prepared, body_limit: int) -> Answer:
        if prepared.request is None:
            return await self._fetch_with_aiohttp(prepared.url, prepared.headers, body_limit)
        answer = await self._direct.get(prepared.request, body_limit)
        if answer.status in _REDIRECTS and self._config.follow_redirects:
            return await self._fetch_with_aiohttp(prepared.url, prepared.headers, body_limit)
        return answer

    async def _fetch_with_aiohttp(self, url: str, headers: _Headers, body_limit: int) -> Answer:
        import aiohttp
        from yarl import URL

        try:
            async with self._open_session().get(
                URL(url, encoded=True),
                headers=headers,
                allow_redirects=self._config.follow_redirects,
                max_redirects=_MAX_REDIRECTS,
                proxy=self._config.proxy_url,
                server_hostname=self._config.tls_config.server_name,
                timeout=aiohttp.ClientTimeout(),  # the caller's limit covers the whole exchange
            ) as response:
                body = await _read(response, body_limit) if response.status == 200 else b""
                by_name = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, response.reason or "", by_name, body)
        except (aiohttp.ClientError, OSError) as e:
            raise HttpFailure(_aiohttp_reason(e)) from e

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            reach = self._config.reach
            connector = aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_IDLE_CONNECTION_S,
                ssl=self._tls or True,
                socket_factory=reach.socket_for if reach is not None else None,
            )
            # Bodies are decompressed here and not by aiohttp: with a limit, and without a thread per chunk.
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding"),
            )
        return self._session


def _merged(configured: _Headers, own: dict[str, str], gzip: bool) -> _Headers:
    """What every request carries, what the configuration adds, and `own`: the latter replaces the former."""
    always = {"User-Agent": f"Trilens/{__version__}"}
    own = {**own, "Accept-Encoding": "gzip" if gzip else "identity"}
    taken = {name.lower() for name in own}
    added = [(name, value) for name, value in configured if name.lower() not in taken]
    taken.update(name.lower() for name, _ in added)
    return [*((n, value) for n, value in always.items() if n.lower() not in taken), *added, *own.items()]


def _has_user(url: str) -> bool:
    return "@" in urlsplit(url).netloc


@functools.cache
def _default_tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _response(answer: Answer, body_limit: int) -> Response:
    if answer.status != 200:
        raise ScrapeError(f"the server answered {answer.status} {answer.reason}".rstrip())
    body, encoding = answer.body, answer.headers.get("content-encoding", "identity").lower()
    if encoding == "gzip":
        body = _gunzip(body, body_limit)
    elif encoding != "identity":
        raise ScrapeError(f"the answer is in {encoding!r}, which was not asked for")
    return Response(body, answer.headers.get("content-type", ""))


def _aiohttp_reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return f"cannot connect: {explain(error.os_error)}"
    return str(error) or type(error).__name__


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if limit and size > limit:
            raise too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _gunzip(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = inflater.decompress(data, limit + 1 if limit else _UNLIMITED)
        if inflater.unused_data:
            return _gunzip_members(data, limit)
    except (zlib.error, gzip.BadGzipFile) as e:
        raise ScrapeError(f"the answer is not valid gzip: {e}") from e
    except EOFError as e:
        raise ScrapeError(_CUT_SHORT) from e
    if limit and len(body) > limit:
        raise too_large(limit)
    if not inflater.eof:
        raise ScrapeError(_CUT_SHORT)
    return body


def _gunzip_members(data: bytes, limit: int) -> bytes:
    """Of one gzip file after the other, as some servers write them; rare, and slower than one at a go."""
    pieces: list[bytes] = []
    size = 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as members:
        while piece := members.read1(_PIECE):
            size += len(piece)
            if limit and size > limit:
                raise too_large(limit)
            pieces.append(piece)
    return b"".join(pieces)
