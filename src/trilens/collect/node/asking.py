"""Questions to something that may never answer, such as the driver of a broken GPU."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Overdue(Exception):
    """No answer in time."""


class Asker:
    """Asks one question at a time in a thread of its own; who waits too long goes on without an answer."""

    def __init__(self, name: str) -> None:
        self._questions: queue.SimpleQueue[tuple[Callable[[], object], Future[object]]] = queue.SimpleQueue()
        self._overdue: Future[object] | None = None
        threading.Thread(
            target=self._work, name=name, daemon=True
        ).start()  # it may hang: no exit waits for it

    def ask(self, question: Callable[[], T], timeout_s: float) -> T:
        if self._overdue is not None and not self._overdue.done():
            raise Overdue("an earlier question is still not answered")
        answer: Future[object] = Future()
        self._questions.put((question, answer))
        try:
            return answer.result(timeout_s)  # type: ignore[return-value]
        except TimeoutError:
            if answer.done():
                raise  # it is the question's own
            self._overdue = answer
            raise Overdue(f"no answer within {timeout_s:g} s") from None

    def _work(self) -> None:
        while True:
            question, answer = self._questions.get()
            try:
                answer.set_result(question())
            except BaseException as e:  # noqa: BLE001 - it is raised again where the question was asked
                answer.set_exception(e)
