"""What logs say together, for people and for trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs.people import Who
from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.diagnose.logs.signs import Kind
    from trilens.model.verdict import Layer, Missing

UNKNOWN: Final = "unknown"  # the class where nothing tells of a cause

_NOBODY: Final = Who()


class Told(NamedTuple):
    """A line that matters."""

    cause: str
    who: Who
    t_ms: int | None
    file: str
    number: int
    text: str
    kind: Kind
    lines: int = 1  # that say the same


class Follower(NamedTuple):
    """What came of the cause: a class, and the ranks that say it."""

    cause: str
    ranks: tuple[int, ...]
    lines: int


@dataclass(frozen=True, slots=True)
class LogVerdict:
    cause: str
    family: str
    layer: Layer
    text: str
    confidence: float
    fix: tuple[str, ...] = ()
    who: Who = _NOBODY
    t_ms: int | None = None
    file: str = ""
    number: int = 0  # of the line; 0 where there is none
    line: str = ""
    why: str = ""  # what it rests on, where no line says it
    missing: tuple[Missing, ...] = ()
    others: tuple[Told, ...] = ()  # what would do as a cause as well
    follows: tuple[Follower, ...] = ()
    order: tuple[Told, ...] = ()  # of events, the first one first
    skew_ms: Mapping[str, int] = field(default_factory=dict)  # by host, where clocks differ
    ranks: int = 0  # that said something
    lines: int = 0

    @property
    def can_tell(self) -> bool:
        return self.confidence >= TELL_FROM
