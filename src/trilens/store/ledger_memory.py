"""What was asked of the ledger, remembered: several pages and viewers ask the same between two bookings.

The rows of an hour carry a number, and another one once they are others. What was found for certain numbers
would be found again, so an answer holds as long as all hours of its window have these, and no rows are lost.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from trilens.model.ledger_sums import BookedHour

T = TypeVar("T")

_MOST_LINES: Final = 10_000  # of one answer: a larger one is seldom asked twice
_ALL_LINES: Final = 100_000  # of about 300 bytes


class RememberedAnswers:
    """Thread-safe. A question names the numbers of all rows that it is about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, tuple[Any, ...]] = {}
        self._lines = 0
        self._forgotten = 0

    def of(self, question: Hashable, read: Callable[[], list[T]]) -> list[T]:
        """What was found before, or else what `read` finds now."""
        with self._lock:
            known = self._found.pop(question, None)
            if known is not None:
                self._found[question] = known  # the latest asked for last
                return [*known]
            forgotten = self._forgotten
        found = read()
        self._keep(question, found, forgotten)
        return found

    def forget(self) -> None:
        """Rows were lost: what was found without them is wrong."""
        with self._lock:
            self._found, self._lines, self._forgotten = {}, 0, self._forgotten + 1

    def _keep(self, question: Hashable, found: Sequence[Any], forgotten: int) -> None:
        if len(found) > _MOST_LINES:
            return
        with self._lock:
            if forgotten != self._forgotten:
                return
            self._lines += 1 + len(found) - self._let_go(question)
            self._found[question] = tuple(found)
            while self._lines > _ALL_LINES:
                self._lines -= self._let_go(next(iter(self._found)))

    def _let_go(self, question: Hashable) -> int:
        found = self._found.pop(question, None)
        return 0 if found is None else 1 + len(found)


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
