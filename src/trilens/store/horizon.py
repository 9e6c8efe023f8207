"""Up to when rollups have been made, agreed between the writer and the rollup job."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOTHING_ROLLED: Final = -(1 << 62)
NOTHING_WRITTEN: Final = 1 << 62


class Horizon:
    """A sample at or before the horizon is late: its hour has been rolled up, or is just being, without it.

    A write holds the gate from looking at the horizon until its rows are in; the job moves the horizon
    through the same gate, before it reads. So every row is either in what the job reads or marked as late.
    """

    def __init__(self, until_ms: int = NOTHING_ROLLED, dirty_hours: Iterable[int] = ()) -> None:
        self._until_ms = until_ms
        self._rolled_ms = until_ms
        self._dirty = frozenset(dirty_hours)
        self.oldest_written_ms = NOTHING_WRITTEN  # since someone who holds the gate last set it back
        self._gate = threading.Lock()

    @property
    def rolled_ms(self) -> int:
        """Up to here rollups are on disk; between this and the horizon they are being made."""
        return self._rolled_ms

    def has_dirty(self, start_ms: int, end_ms: int) -> bool:
        """Whether rollups of (start, end] miss samples that are on disk."""
        return any(start_ms < end_t and end_t - HOUR_MS < end_ms for end_t in self._dirty)

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

    def rolled(self, until_ms: int) -> None:
        self._rolled_ms = max(self._rolled_ms, until_ms)

    def note_written(self, oldest_ms: int) -> None:
        """Called by who holds the gate."""
        self.oldest_written_ms = min(self.oldest_written_ms, oldest_ms)

    def mark_dirty(self, ends: Iterable[int]) -> None:
        """Called by who holds the gate."""
        self._dirty |= frozenset(ends)

    def set_dirty(self, ends: Iterable[int]) -> None:
        """Called by who holds the gate."""
        self._dirty = frozenset(ends)
