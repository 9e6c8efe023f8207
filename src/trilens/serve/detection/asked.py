"""Asks the samples, wherever they are, from a thread of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilens.model.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from trilens.serve.asked_loop import AskedLoop
    from trilens.serve.own_queries import Matrix, OwnQueries, Shown, Times

_ANSWER_S: Final = 30.0  # of one query; later than this, it is no more what is now

_T = TypeVar("_T")


class Asked:
    """May be called from any thread but that of the server's loop, in which the connections to another
    server live."""

    def __init__(self, queries: OwnQueries) -> None:
        self._queries = queries
        self._loop: AskedLoop | None = None

    def ask_in(self, loop: AskedLoop) -> None:
        self._loop = loop

    def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        return self._wait(self._queries.matrix(query, times, labels))

    def vector(self, query: str) -> Sequence[Shown]:
        return self._wait(self._queries.vector(query))

    def _wait(self, asked: Coroutine[Any, Any, _T]) -> _T:
        if self._loop is None:
            asked.close()
            raise SourceError("the server has not begun yet: nothing can be asked")
        return self._loop.answer(asked, _ANSWER_S)
