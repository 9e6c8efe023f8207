"""Answers, remembered: several pages and viewers ask the same again and again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

T = TypeVar("T")

_MOST_LINES: Final = 10_000  # of one answer: a larger one is seldom asked twice


class RememberedAnswers:
    """Thread-safe. A question says of which state of things it is, so its answer never changes; at most
    `all_lines` are kept, those that were asked for last."""

    def __init__(self, all_lines: int) -> None:
        self._all_lines = all_lines
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
            while self._lines > self._all_lines:
                self._lines -= self._let_go(next(iter(self._found)))

    def _let_go(self, question: Hashable) -> int:
        found = self._found.pop(question, None)
        return 0 if found is None else 1 + len(found)
