"""A thread with an event loop of its own, for work that must not wait for requests, nor they for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from trilens.serve.asked_loop import AskedLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

log = logging.getLogger(__name__)

T = TypeVar("T")


class LoopThread:
    """Runs one coroutine from `start` until `stop`; every method may be called from any other thread."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._asked: AskedLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.has_failed = False  # it ended by itself, and the log says why

    def start(self) -> None:
        """Returns when the work can be stopped, and asked."""
        self._thread.start()
        self._begun.wait()

    def stop(self) -> None:
        """Returns when the work has cleaned up behind itself."""
        asked, task = self._asked, self._task
        if asked is not None and task is not None:
            asked.soon(task.cancel)
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        """Raises RuntimeError where nothing runs."""
        asked = self._asked
        if asked is not None:
            with suppress(RuntimeError):  # it does not run any more
                return asked.ask(question)
        question.close()
        raise RuntimeError(f"{self._thread.name} does not run")

    def between_steps(self, question: Callable[[], T], timeout_s: float) -> T:
        """The answer of a moment at which the work changes nothing. Raises TimeoutError."""

        async def answered() -> T:
            return question()

        try:
            asked = self.submit(answered())
        except RuntimeError:  # nobody changes anything yet, or any more
            return question()
        try:
            return asked.result(timeout_s)
        finally:
            asked.cancel()

    def _run(self) -> None:
        try:
            uvloop.run(self._follow())
        except asyncio.CancelledError:
            pass
        except Exception:
            log.exception(
                "work in the background has ended, which is a defect", extra={"work": self._thread.name}
            )
            self.has_failed = True
        finally:
            self._begun.set()

    async def _follow(self) -> None:
        asked = self._asked = AskedLoop(asyncio.get_running_loop())
        self._task = asyncio.current_task()
        self._begun.set()
        try:
            await self._work()
        finally:
            await asked.close()
