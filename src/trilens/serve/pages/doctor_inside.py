"""This server's own API, asked without a socket, so that checks find here what they find from outside."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson
from starlette.exceptions import HTTPException
from starlette.routing import Router

from trilens.model.errors import ServerError, ServerSilent, TrilensError
from trilens.model.identity import LOCAL
from trilens.serve.routes import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import Message

    from trilens.serve.asked_loop import AskedLoop

_WITHIN_S: Final = 10.0  # of one question: a healthy one of a large fleet takes a second or two
_SILENT: Final = "see what it depends on: /readyz says what does not answer"
_FORM: Final = (b"content-type", b"application/x-www-form-urlencoded")


class Inside(NamedTuple):
    """An answer of our own."""

    status: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def headers(self) -> Mapping[str, str]:
        """None: the date in them would be compared with the clock that it came from."""
        return {}


class InsideServer:
    """For threads beside `loop`, in which the routes answer. Nobody is asked for a token: who may ask was
    settled before. An error of ours is the ServerError that a client from outside would have."""

    def __init__(self, routes: Sequence[BaseRoute], loop: AskedLoop) -> None:
        self._router = Router(routes)
        self._loop = loop

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._envelope(self._ask("GET", path, urlencode(params or {})))

    def post(self, path: str, *, form: Mapping[str, str]) -> dict[str, Any]:
        return self._envelope(self._ask("POST", path, body=urlencode(form).encode()))

    def probe(self, path: str) -> dict[str, Any]:
        return self._read(self._ask("GET", path))

    def fetch(self, path: str) -> Inside:
        return self._ask("GET", path)

    def _envelope(self, answer: Inside) -> dict[str, Any]:
        envelope = self._read(answer)
        if envelope.get("status") != "success":  # as another server put it, which has the samples
            raise ServerError(str(envelope.get("error", f"HTTP {answer.status}")))
        return envelope

    def _read(self, answer: Inside) -> dict[str, Any]:
        """What another server answers, which has the samples, is passed on as it came."""
        try:
            found = orjson.loads(answer.content)
        except orjson.JSONDecodeError as e:
            raise ServerError(f"the answer was HTTP {answer.status}, and not in JSON", hint=_SILENT) from e
        if not isinstance(found, dict):
            raise ServerError(f"the answer was HTTP {answer.status}, and no JSON object", hint=_SILENT)
        return found

    def _ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> Inside:
        try:
            asking = self._loop.ask(self._answer(method, path, query, body))
        except RuntimeError as e:
            raise ServerSilent(f"{path} is not asked any more: the server stops") from e
        try:
            return asking.result(_WITHIN_S)
        except TimeoutError as e:
            asking.cancel()
            raise ServerSilent(f"{path} did not answer in {_WITHIN_S:g} s", hint=_SILENT) from e
        except CancelledError as e:
            raise ServerSilent(f"{path} did not answer: the server stops") from e
        except TrilensError as e:
            raise ServerError(e.message, hint=e.hint) from e
        except HTTPException as e:
            raise ServerError(f"{path}: {e.detail}") from e

    async def _answer(self, method: str, path: str, query: str, body: bytes) -> Inside:
        scope = {
            IDENTITY: LOCAL,
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [_FORM] if body else [],
            "app": None,  # where there is one, a path that is not there is an exception
        }
        status, parts = 500, []
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                await asyncio.Event().wait()  # a client that stays on the line
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self._router(scope, receive, send)
        return Inside(status, b"".join(parts))
