"""Reads of tables that seldom change, remembered until something is written to them: each question to the
engine costs milliseconds, however little there is to read, and pages ask the same every few seconds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from trilens.store.remembered_answers import RememberedAnswers
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine

T = TypeVar("T")

_AS_OBJECTS: Final = 5  # times as much memory as what the engine hands out: 4.1 to 6.6 were measured
_AN_ENTRY: Final = 512  # what even an empty answer takes, with the question that it is known by
_BYTES: Final = 192 << 20  # of all tables together
_LARGEST_BYTES: Final = 64 << 20


class _Question(NamedTuple):
    table: str
    changes: tuple[int, int]  # of the table, when it was asked
    statement: str


class RememberedReads:
    """Thread-safe. Only of the embedded engine: to a cluster others write too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._changes: dict[str, tuple[int, int]] = {}
        self._answers = RememberedAnswers(_BYTES, _LARGEST_BYTES)

    def of(
        self, table: str, statement: str, made: Callable[[dict[str, Any]], T], guard: QueryGuard | None = None
    ) -> list[T]:
        """What is made of each row that the statement, which reads this table alone, finds."""

        def read() -> tuple[list[T], int]:
            found = self._engine.query_arrow(statement, guard=guard)
            weight = _AN_ENTRY + len(statement) + _AS_OBJECTS * found.nbytes
            return [made(row) for row in found.to_pylist()], weight

        if not self._engine.embedded:
            return read()[0]
        return self._answers.weighed(self._question(table, statement), read)

    def _question(self, table: str, statement: str) -> _Question:
        """Of the table as it is now. Of how it was before nobody asks any more: what is known of that goes at
        once, and with the next change what was being read meanwhile."""
        with self._lock:
            changes = self._engine.changes(table)  # in here: nobody goes back to those of before
            if self._changes.get(table) != changes:
                self._changes[table] = changes
                self._answers.let_go(lambda one: _is_of_before(one, table, changes))
        return _Question(table, changes, statement)


def _is_of_before(question: Hashable, table: str, changes: tuple[int, int]) -> bool:
    return isinstance(question, _Question) and question.table == table and question.changes != changes


def hours_around(from_ms: int, to_ms: int) -> tuple[int, int]:
    """Around a span: what is asked of these is asked again by those who look a moment later."""
    return from_ms // HOUR_MS * HOUR_MS, -(-to_ms // HOUR_MS) * HOUR_MS
