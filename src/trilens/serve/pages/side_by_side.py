"""Reads that do not need each other, at the same time: of each the engine makes a few milliseconds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    A = TypeVar("A")
    B = TypeVar("B")

_THREADS: Final = 6  # of all who ask at once; the engine has as many readers again


class SideBySide:
    """Thread-safe. Reads must not read side by side themselves: they would wait for each other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="page-read")

    def begin(self, read: Callable[[], A]) -> Callable[[], A]:
        """What it gives waits for the read, and raises what it raised."""
        return self._pool.submit(read).result
