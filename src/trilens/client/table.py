"""A table before it is anybody's: named columns of one kind each, and what holds for the whole of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Kind(Enum):
    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    TRUTH = "truth"
    TIME_MS = "time in milliseconds"
    TIME_US = "time in microseconds"
    MONEY = "an amount, sent as a text so that it is exact"
    TEXTS = "texts"


class Column(NamedTuple):
    """`path` leads to it in an answer (`phase.reason`), and is its name if left out."""

    name: str
    kind: Kind = Kind.TEXT
    path: str | Callable[[Mapping[str, Any]], Any] = ""

    def read(self, row: Mapping[str, Any]) -> Any:
        """None is unknown, wherever on the way to it nothing is known."""
        if callable(self.path):
            return self.path(row)
        found: Any = row
        for name in (self.path or self.name).split("."):
            found = found[name] if found is not None else None
        return found


@dataclass(frozen=True, slots=True)
class Table:
    columns: Mapping[str, tuple[Kind, Sequence[Any]]]
    warnings: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)  # what else holds for all rows

    @property
    def currency(self) -> str | None:
        """Of all its amounts; None where there are several, or none."""
        _, told = self.columns.get("currency", (Kind.TEXT, ()))
        known = {one for one in told if one is not None}
        return known.pop() if len(known) == 1 else None


def table_of(
    columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], warnings: Sequence[str] = (), **about: Any
) -> Table:
    every = [*rows]
    values = {one.name: (one.kind, [as_value(one.kind, one.read(row)) for row in every]) for one in columns}
    return Table(values, tuple(warnings), about)


def as_value(kind: Kind, told: Any) -> Any:
    """JSON has no number for what is not finite, and no exact one for money: both come as texts."""
    if told is None:
        return None
    if kind in (Kind.NUMBER, Kind.MONEY):
        return float(told)
    return str(told) if kind is Kind.TEXT else told
