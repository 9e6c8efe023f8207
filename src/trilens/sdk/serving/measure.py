"""The decorator: a function, coroutine, generator or async generator as one request a call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from trilens.sdk.serving.request import CURRENT, leave

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import TracebackType

    from trilens.sdk.serving.program import ServingProgram
    from trilens.sdk.serving.request import Request

F = TypeVar("F", bound="Callable[..., Any]")


def measured(function: F, program: ServingProgram, model: object, version: object) -> F:
    """The first item of a generator is the first token. Arguments, results and exceptions pass untouched."""
    import inspect  # a program that only has the middleware does not pay for it

    call: Callable[..., Any] = function

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def streamed_later(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            request = program.begin(model, version)
            error: BaseException | None = None
            steps = _AsyncSteps(call(*args, **kwargs), request)
            try:
                item = await steps.send(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await steps.close()
                        raise
                    except BaseException as e:  # noqa: BLE001 - the generator's to handle
                        item = await steps.throw(e)
                    else:
                        item = await steps.send(sent)
            except StopAsyncIteration:
                return
            except BaseException as e:
                error = e
                raise
            finally:
                request.end_by(error)

        return streamed_later  # type: ignore[return-value]
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def streamed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            request = program.begin(model, version)
            error: BaseException | None = None
            try:
                return (yield from _Steps(call(*args, **kwargs), request))
            except BaseException as e:
                error = e
                raise
            finally:
                request.end_by(error)

        return streamed  # type: ignore[return-value]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with program.begin(model, version):
                return await call(*args, **kwargs)

        return awaited  # type: ignore[return-value]

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with program.begin(model, version):
            return call(*args, **kwargs)

    return called  # type: ignore[return-value]


# A generator runs in whatever context asks it for its next item, so the request is the current one only while
# it runs.


class _Steps:
    def __init__(self, inner: Generator[Any, Any, Any], request: Request) -> None:
        self._inner = inner
        self._request = request

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(
        self, kind: Any, error: BaseException | None = None, traceback: TracebackType | None = None
    ) -> Any:
        return self._step(self._inner.throw, kind if error is None else error)

    def close(self) -> None:
        self._inner.close()

    def _step(self, advance: Callable[[Any], Any], value: Any) -> Any:
        token = CURRENT.set(self._request)
        try:
            item = advance(value)
        finally:
            leave(token)
        self._request.first_token()
        return item


class _AsyncSteps:
    def __init__(self, inner: AsyncGenerator[Any, Any], request: Request) -> None:
        self._inner = inner
        self._request = request

    async def send(self, value: Any) -> Any:
        return await self._step(self._inner.asend(value))

    async def throw(self, error: BaseException) -> Any:
        return await self._step(self._inner.athrow(error))

    async def close(self) -> None:
        await self._inner.aclose()

    async def _step(self, step: Any) -> Any:
        token = CURRENT.set(self._request)
        try:
            item = await step
        finally:
            leave(token)
        self._request.first_token()
        return item
