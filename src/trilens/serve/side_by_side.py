"""Reads that do not need each other, at the same time: of each the engine makes a few milliseconds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from trilens.model.query import QueryGuard

    T = TypeVar("T")

_THREADS: Final = 6  # of all who ask at once; the engine has as many readers again


class Reads:
    """Those of one question."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._begun: list[Future[Any]] = []

    def begin(self, read: Callable[[], T]) -> Callable[[], T]:
        """What it gives waits for the read, and raises what it raised."""
        begun = self._pool.submit(read)
        self._begun.append(begun)
        return begun.result

    def end(self) -> None:
        """None of them is left on return."""
        for one in self._begun:
            one.cancel()
        wait(self._begun)


class SideBySide:
    """Thread-safe. Reads must not read side by side themselves: they would wait for each other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="page-read")

    @contextmanager
    def reading(self, guard: QueryGuard) -> Iterator[Reads]:
        """All that is begun inside must check `guard`. Where something fails, nobody waits for the others any
        more, and they are told to stop."""
        reads = Reads(self._pool)
        try:
            yield reads
        except BaseException:
            guard.cancel()
            raise
        finally:
            reads.end()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
