"""Paths that are not there, and methods that a path does not take."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from trilens.serve.envelope import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

_API: Final = "/api/"
_ERROR_TYPES: Final = {404: "not_found"}


def on_http_error(paths: Sequence[str]) -> Callable[[Request, Exception], Response]:
    """A handler that knows these paths: under /api it answers in the API's own shape, for programs."""

    def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        message = error.detail
        if error.status_code == 404:
            nearest = difflib.get_close_matches(path, paths, n=1, cutoff=0.8)
            message = f"there is no {path} here" + (f" (did you mean {nearest[0]}?)" if nearest else "")
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            message = f"{path} does not take {request.method} (use {allowed})"
        if not path.startswith(_API):
            return PlainTextResponse(f"{message}\n", error.status_code, error.headers)
        kind = _ERROR_TYPES.get(error.status_code, "bad_data")
        body = orjson.dumps({"status": "error", "errorType": kind, "error": message})
        return Response(body, error.status_code, error.headers, JSON)

    return handle
