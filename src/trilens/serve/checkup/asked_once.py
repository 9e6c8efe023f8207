"""A server of which each question is asked once, for checks that run side by side and want the same."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from trilens.model.errors import ServerSilent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.serve.checkup.evidence import Fetched, Server

    T = TypeVar("T")


class AskedOnce:
    """Thread-safe, where the server is. What failed stays failed, and of a path that did not answer in time
    nothing else is asked: who says nothing is waited for once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, ...], Future[Any]] = {}
        self._silent: dict[str, ServerSilent] = {}

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._once(path, _key(params), lambda: self._server.get(path, params))

    def post(self, path: str, *, form: Mapping[str, str]) -> dict[str, Any]:
        return self._once(path, _key(form), lambda: self._server.post(path, form=form))

    def probe(self, path: str) -> dict[str, Any]:
        return self._once(path, (), lambda: self._server.probe(path))

    def fetch(self, path: str) -> Fetched:
        return self._once(path, (), lambda: self._server.fetch(path))

    def _once(self, path: str, params: tuple[str, ...], ask: Callable[[], T]) -> T:
        key = (path, *params)
        with self._lock:
            if path in self._silent:
                raise self._silent[path]
            is_first = key not in self._asked
            answer: Future[T] = self._asked.setdefault(key, Future())
        if is_first:
            try:
                answer.set_result(ask())
            except BaseException as e:  # noqa: BLE001 - raised below, and to all who wait for the same
                if isinstance(e, ServerSilent):
                    self._silent[path] = e
                answer.set_exception(e)
        return answer.result()


def _key(params: Mapping[str, str] | None) -> tuple[str, ...]:
    return tuple(text for pair in (params or {}).items() for text in pair)
