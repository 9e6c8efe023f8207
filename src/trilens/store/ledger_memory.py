"""What was asked of the ledger, remembered: several pages and viewers ask the same between two bookings.

The rows of an hour carry a number, and another one once they are others. What was found for certain numbers
would be found again, so an answer holds as long as all hours of its window have these, and no rows are lost.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.model.ledger_sums import BookedHour


class RememberedHours:
    """Thread-safe. Of each hour all its revisions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[int, tuple[BookedHour, ...]] = {}
        self._turn = 0  # counts how often any of them has changed

    def of(self, hours: Iterable[int]) -> tuple[int, dict[int, tuple[BookedHour, ...]]]:
        """Those that are known, and what `keep` wants to know."""
        with self._lock:
            return self._turn, {hour: self._told[hour] for hour in hours if hour in self._told}

    def keep(self, turn: int, read: Mapping[int, tuple[BookedHour, ...]]) -> None:
        """What was read since then may be older than what was written since then."""
        with self._lock:
            if turn == self._turn:
                self._told.update(read)

    def changed(self, hours: Iterable[int]) -> None:
        with self._lock:
            self._turn += 1
            for hour in hours:
                self._told.pop(hour, None)
