"""An event loop that threads ask: what they ask ends before it does."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from trilens.model.errors import QueryCancelled, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class AskedLoop:
    """For any thread but the loop's own, in which the connections to other servers live. A loop that closes
    over a question would leave who asked it waiting, and its task pending."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._is_closed = False
        self._asked: set[asyncio.Task[Any]] = set()

    def ask(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        """Who cancels the answer ends the question. Raises RuntimeError where nothing is asked any more."""
        answer: Future[T] = Future()
        try:
            with self._lock:
                if self._is_closed or not self._loop.is_running():
                    raise RuntimeError("nothing is asked any more")
                self._loop.call_soon_threadsafe(self._begin, question, answer)
        except RuntimeError:
            question.close()
            raise
        return answer

    def answer(self, question: Coroutine[Any, Any, T], within_s: float) -> T:
        """Raises SourceError where there is no answer, and QueryCancelled once the server stops."""
        try:
            asked = self.ask(question)
        except RuntimeError as e:
            raise QueryCancelled("the server stops: nothing is asked any more") from e
        try:
            return asked.result(within_s)
        except TimeoutError as e:
            asked.cancel()
            raise SourceError(f"there was no answer within {within_s:g} s") from e
        except CancelledError as e:
            raise QueryCancelled("the server stops: what was asked is answered no more") from e

    def soon(self, act: Callable[[], object]) -> None:
        """Nothing where the loop has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    async def close(self) -> None:
        """Nothing is asked any more; returns when all that was asked has ended, and who asked was told."""
        with self._lock:
            self._is_closed = True
        await asyncio.sleep(0)  # what was asked before this has begun now
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)

    def _begin(self, question: Coroutine[Any, Any, T], answer: Future[T]) -> None:
        if answer.cancelled():
            question.close()
            return
        task = self._loop.create_task(question)
        self._asked.add(task)
        task.add_done_callback(partial(self._end, answer))
        answer.add_done_callback(partial(self._give_up, task))

    def _end(self, answer: Future[T], task: asyncio.Task[T]) -> None:
        self._asked.discard(task)
        if task.cancelled():
            answer.cancel()
            return
        error = task.exception()
        if not answer.set_running_or_notify_cancel():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    def _give_up(self, task: asyncio.Task[T], answer: Future[T]) -> None:
        if answer.cancelled():
            self.soon(task.cancel)
