"""Sums of the ledger, remembered: several pages and viewers ask the same between two bookings."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.ledger_sums import Sum

_QUESTIONS: Final = 128
_MOST_LINES: Final = 2_000  # of one answer: a larger one is seldom asked twice


class RememberedSums:
    """Thread-safe. By their statements, which name all that was written until then: such rows do not change,
    so what was found is what would be found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[Sum, ...]] = {}

    def of(self, statement: str) -> list[Sum] | None:
        with self._lock:
            found = self._found.pop(statement, None)
            if found is None:
                return None
            self._found[statement] = found  # the latest asked for last
            return [*found]

    def keep(self, statement: str, found: Sequence[Sum]) -> None:
        if len(found) > _MOST_LINES:
            return
        with self._lock:
            self._found[statement] = tuple(found)
            while len(self._found) > _QUESTIONS:
                del self._found[next(iter(self._found))]

    def forget(self) -> None:
        """Rows were deleted that had counted."""
        with self._lock:
            self._found.clear()
