"""Answers, remembered: several pages and viewers ask the same again and again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

# Of the room, of one answer without a limit of its own: larger ones are seldom asked twice.
_LARGEST: Final = 0.1


class _Kept(NamedTuple):
    lines: tuple[Any, ...]
    weight: int


class RememberedAnswers:
    """Thread-safe. A question says of which state of things it is, so its answer never changes; at most as
    many lines as there is room for are kept, or as much of what else they are weighed in: those that were
    asked for last."""

    def __init__(self, room: int, largest: int | None = None) -> None:
        self._room = room
        self._largest = int(_LARGEST * room) if largest is None else largest
        self._lock = threading.Lock()
        self._found: dict[Hashable, _Kept] = {}
        self._taken = 0
        self._forgotten = 0

    def weighed(self, question: Hashable, read: Callable[[], tuple[list[T], int]]) -> list[T]:
        """What was found before, or else what `read` finds now and says that it weighs."""
        with self._lock:
            known = self._found.pop(question, None)
            if known is not None:
                self._found[question] = known  # the latest asked for last
                return [*known.lines]
            forgotten = self._forgotten
        found, weight = read()
        if weight <= self._largest:
            self._keep(question, _Kept(tuple(found), weight), forgotten)
        return found

    def let_go(self, is_old: Callable[[Hashable], bool]) -> None:
        """Of these questions nobody asks any more."""
        with self._lock:
            for question in [one for one in self._found if is_old(one)]:
                self._let_go(question)

    def forget(self) -> None:
        """Rows were lost: what was found without them is wrong."""
        with self._lock:
            self._found, self._taken, self._forgotten = {}, 0, self._forgotten + 1

    def _keep(self, question: Hashable, found: _Kept, forgotten: int) -> None:
        with self._lock:
            if forgotten != self._forgotten:
                return
            self._let_go(question)
            self._found[question] = found
            self._taken += found.weight
            while self._taken > self._room:
                self._let_go(next(iter(self._found)))

    def _let_go(self, question: Hashable) -> None:
        known = self._found.pop(question, None)
        if known is not None:
            self._taken -= known.weight
