"""Headers that every answer carries: what a browser may do with it, and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import Message, Send

_ALWAYS: Final = {
    # Of an answer that is no page. Those of the web app have their own.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_ONLY_HTTPS: Final = "max-age=31536000"


def with_hygiene(send: Send, *, is_https: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _ALWAYS.items():
                headers.setdefault(name, value)
            if is_https:
                headers.setdefault("Strict-Transport-Security", _ONLY_HTTPS)
        await send(message)

    return sending


def with_cors(send: Send, origin: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Methods"] = "GET, POST, OPTIONS"
            headers["Access-Control-Allow-Headers"] = "Accept, Authorization, Content-Type, Origin"
            headers["Access-Control-Expose-Headers"] = "Date"
            headers.add_vary_header("Origin")
        await send(message)

    return sending
