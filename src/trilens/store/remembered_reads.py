"""Reads of tables that seldom change, remembered until something is written to them: each question to the
engine costs milliseconds, however little there is to read, and pages ask the same every few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilens.store.remembered_answers import RememberedAnswers
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine

T = TypeVar("T")

_ALL_ROWS: Final = 30_000


class RememberedReads:
    """Thread-safe. Only of the embedded engine: to a cluster others write too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._answers = RememberedAnswers(_ALL_ROWS)

    def of(
        self, table: str, statement: str, made: Callable[[dict[str, Any]], T], guard: QueryGuard | None = None
    ) -> list[T]:
        """What is made of each row that the statement, which reads this table alone, finds."""

        def read() -> list[T]:
            return [made(row) for row in self._engine.query_arrow(statement, guard=guard).to_pylist()]

        if not self._engine.embedded:
            return read()
        return self._answers.of((self._engine.changes(table), statement), read)


def hours_around(from_ms: int, to_ms: int) -> tuple[int, int]:
    """Around a span: what is asked of these is asked again by those who look a moment later."""
    return from_ms // HOUR_MS * HOUR_MS, -(-to_ms // HOUR_MS) * HOUR_MS
