"""ASGI middleware: every HTTP request to a served model, whatever the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.exposition import CONTENT_TYPE
from trilens.sdk.guard import describe
from trilens.sdk.serving.program import PROGRAM
from trilens.sdk.serving.request import CURRENT, leave

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, MutableMapping

    from trilens.sdk.serving.program import ServingProgram
    from trilens.sdk.serving.request import Request

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

# What probes and scrapers ask for is no request to a model.
PROBES: Final = frozenset({"/health", "/healthz", "/livez", "/readyz", "/ping", "/metrics"})
CLIENT_LEFT: Final = "499"  # as web servers call it


class Middleware:
    """`model` and `version` are text, or are asked of the request's scope. With `path` the metrics are
    answered there, otherwise on a port of their own."""

    def __init__(
        self,
        app: App,
        *,
        model: str | Callable[[Scope], object] | None = None,
        version: str | Callable[[Scope], object] | None = None,
        model_header: str | None = None,
        version_header: str | None = None,
        path: str | None = None,
        ignore: Collection[str] = PROBES,
        program: ServingProgram = PROGRAM,
    ) -> None:
        self.app = app
        self._program = program
        self._model = _Named(model, model_header, program)
        self._version = _Named(version, version_header, program)
        self._path = path
        ignored = program.guard.run("ignored paths", frozenset, ignore)
        self._ignore = ignored if ignored is not None else PROBES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        program = self._program
        if program.needs_port:  # here, not when it is made: a server may fork its workers in between
            if self._path is None:
                program.guard.run("metrics port", program.listen)
            else:
                program.needs_port = False
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self._path is not None and scope["path"] == self._path:
            await _answer(self._program.text().encode("utf-8", "replace"), send)
        elif scope["path"] in self._ignore:
            await self.app(scope, receive, send)
        else:
            await self._measured(scope, receive, send)

    async def _measured(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._program.begin(self._model.of(scope), self._version.of(scope))
        answer = _Answer(request)
        token = CURRENT.set(request)
        error: BaseException | None = None
        try:
            await self.app(scope, answer.received(receive), answer.sent(send))
        except BaseException as e:
            error = e
            raise
        finally:
            leave(token)
            answer.end(error)


class _Answer:
    """What can be seen of an answer on its way out."""

    __slots__ = ("_complete", "_is_whole", "_left", "_request", "_status")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._status: int | None = None
        self._complete = False
        self._left = False
        self._is_whole = False  # its length was known before its first part: it is not made while it is sent

    def received(self, receive: Receive) -> Receive:
        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not self._complete:
                self._left = True
            return message

        return watched

    def sent(self, send: Send) -> Send:
        async def watched(message: Message) -> None:
            kind = message["type"]
            if kind == "http.response.body":
                more = message.get("more_body", False)
                if more and not self._is_whole and message.get("body"):
                    self._request.first_token()
                try:
                    await send(message)
                except OSError:  # what a server raises when nobody is there to read it
                    self._left = True
                    raise
                self._complete = not more
            else:
                if kind == "http.response.start":
                    self._status = message["status"]
                    self._is_whole = any(name == b"content-length" for name, _ in message.get("headers", ()))
                await send(message)

        return watched

    def end(self, error: BaseException | None) -> None:
        request, status = self._request, self._status
        cancelled = error is not None and not isinstance(error, Exception)  # as servers end what nobody reads
        if self._left or (cancelled and not self._complete):
            request.end(CLIENT_LEFT)
        elif isinstance(error, Exception) and (not self._complete or (status or 0) >= 500):
            # Frameworks answer 500 and raise it again. What fails after a good answer is not the answer's.
            request.end(str(status or 500), type(error).__qualname__)
        elif status is None:
            request.end("500", "no answer")
        else:
            request.end(str(status), str(status) if status >= 500 else None)


class _Named:
    """Where the name of a model or version comes from."""

    def __init__(
        self, given: str | Callable[[Scope], object] | None, header: str | None, program: ServingProgram
    ) -> None:
        self._ask = given if callable(given) else None
        self._text = "" if given is None or callable(given) else given
        self._header = str(header).lower().encode("latin-1", "replace") if header else None
        self._program = program

    def of(self, scope: Scope) -> object:
        if self._header is not None:
            for name, value in scope.get("headers", ()):
                if name == self._header:
                    return value.decode("latin-1")
        if self._ask is not None:
            try:
                return self._ask(scope)
            except Exception as error:  # noqa: BLE001 - the program's own function
                self._program.guard.lost("model name", why=describe(error))
                return "unknown"
        return self._text


async def _answer(body: bytes, send: Send) -> None:
    headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
