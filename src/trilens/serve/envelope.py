"""The outer shape of every API answer, and its way onto the wire."""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from trilens.model.errors import InvalidQuery, TooManyRequests, TrilensError
from trilens.serve.routes import DETAIL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

log = logging.getLogger(__name__)

JSON: Final = "application/json"
_COMPRESS_FROM: Final = 1024  # below this, gzip costs more than it saves
_GZIP: Final = zlib.MAX_WBITS | 16


def success(data: bytes, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> bytes:
    """`data` is JSON already."""
    tail = b""
    if warnings:
        tail += b',"warnings":' + orjson.dumps(list(warnings))
    if infos:
        tail += b',"infos":' + orjson.dumps(list(infos))
    return b'{"status":"success","data":%b%b}' % (data, tail)


def failure(error: TrilensError) -> Response:
    """`error` has the hint in it, too: clients of Prometheus's API show nothing else."""
    body: dict[str, object] = {
        "status": "error",
        "errorType": error.prometheus_type,
        "error": str(error),
    }
    if error.hint:
        body["hint"] = error.hint
    if isinstance(error, InvalidQuery) and error.position is not None:
        body["position"] = error.position
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooManyRequests) else None
    return Response(orjson.dumps(body), error.http_status, headers, JSON)


def accepts_gzip(request: Request) -> bool:
    """gzip is named, and not with a weight of zero."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def pack(body: bytes, gzip: bool) -> tuple[bytes, bool]:
    """The body as it is sent, and whether it is compressed (level 1: on a LAN, speed beats size)."""
    if not gzip or len(body) < _COMPRESS_FROM:
        return body, False
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush(), True


def packed_response(packed: tuple[bytes, bool], media_type: str = JSON, status: int = 200) -> Response:
    body, compressed = packed
    headers = {"Vary": "Accept-Encoding"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, media_type)


def reply(request: Request, data: Any, warnings: Sequence[str] = ()) -> Response:
    """A small answer from plain Python values."""
    return packed_response(pack(success(orjson.dumps(data), warnings), accepts_gzip(request)))


def on_trilens_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TrilensError)
    deed = request.scope.get(DETAIL)
    request.scope[DETAIL] = f"{deed}: {error.message}" if deed else error.message
    if error.http_status >= 500:
        log.warning("request failed", extra={"error": str(error), "error_type": error.prometheus_type})
    return failure(error)


def on_unexpected_error(_request: Request, error: Exception) -> Response:
    """A defect of ours: the log has the traceback, the client only that it was one."""
    return failure(TrilensError(f"internal error: {type(error).__name__}", hint="see the server's log"))
