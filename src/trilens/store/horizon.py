"""Up to when rollups have been made, agreed between the writer and the rollup job."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING_ROLLED: Final = -(1 << 62)


class Horizon:
    """A sample at or before the horizon is late: its hour has been rolled up, or is just being, without it.

    A write holds the gate from looking at the horizon until its rows are in; the job moves the horizon
    through the same gate, before it reads. So every row is either in what the job reads or marked as late.
    """

    def __init__(self, until_ms: int = NOTHING_ROLLED) -> None:
        self._until_ms = until_ms
        self._gate = threading.Lock()

    @property
    def until_ms(self) -> int:
        return self._until_ms

    @contextmanager
    def held(self) -> Iterator[int]:
        """No write is under way, and none begins, while inside."""
        with self._gate:
            yield self._until_ms

    def advance(self, until_ms: int) -> None:
        with self._gate:
            self._until_ms = max(self._until_ms, until_ms)
