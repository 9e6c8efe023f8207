"""What a program that serves a model tells of its requests, on `/metrics`: latency, time to the first token,
tokens, queues and errors, by model and version.

    app.add_middleware(trilens.serving.Middleware, model="llama-3.1-8b", version="7")

    @trilens.serving.measure(model="resnet50")
    def predict(image): ...

    with trilens.serving.request(model="llama-3.1-8b") as request:
        request.first_token()
        request.tokens(prompt=812, completion=120)

Nothing here raises into the program: what cannot be used is counted and logged once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from trilens.sdk.serving.measure import measured
from trilens.sdk.serving.middleware import Middleware
from trilens.sdk.serving.program import PROGRAM
from trilens.sdk.serving.queues import Queue
from trilens.sdk.serving.request import CURRENT, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.sdk.serving.measure import F

__all__ = [
    "Middleware",
    "Queue",
    "Request",
    "address",
    "current",
    "measure",
    "metrics_text",
    "queue",
    "request",
]


@overload
def measure(function: F, /) -> F: ...
@overload
def measure(*, model: str = "", version: str = "") -> Callable[[F], F]: ...
def measure(function: F | None = None, /, *, model: str = "", version: str = "") -> F | Callable[[F], F]:
    """For a function, coroutine, generator or async generator: a call is a request."""

    def decorate(function: F) -> F:
        return measured(function, PROGRAM, model, version)

    return decorate if function is None else decorate(function)


def request(*, model: str = "", version: str = "") -> Request:
    """A request that begins now and ends with the `with` block."""
    return PROGRAM.begin(model, version)


def current() -> Request | None:
    """The request that this code is answering: of the middleware, decorator or `with` block around it."""
    return CURRENT.get()


def queue(watched: object = None, *, name: str = "", model: str = "", version: str = "") -> Queue:
    """How much waits: `watched` has a `qsize()` or a length, or is a function that tells; or use the answer's
    `enter` and `leave`, or `with queue.wait():`."""
    return PROGRAM.queue(watched, name, model, version)


def metrics_text() -> str:
    """What `/metrics` shows, for a page of the program's own."""
    return PROGRAM.text()


def address() -> str | None:
    """host:port of this process's own `/metrics`, opened if it is not yet; None where there is none."""
    return PROGRAM.guard.run("metrics port", PROGRAM.listen)
