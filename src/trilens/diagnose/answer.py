"""What a question of a tree is answered with, and by which function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.verdict import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.diagnose.case import Case
    from trilens.model.finding import Subject
    from trilens.model.verdict import Fact, Missing

UNKNOWN: Final = "unknown"  # every question may be answered so, and every tree says where that leads


@dataclass(frozen=True, slots=True)
class Answer:
    """`values` are several where several things are true at once: each is followed, the first one first."""

    values: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    confidence: float = 1.0
    names: Mapping[str, str] = field(default_factory=dict)  # for the texts of the ends that follow
    missing: tuple[Missing, ...] = ()
    subject: Subject = NOBODY  # what it tells about whom to blame; a later answer adds to an earlier one
    since_ms: int | None = None

    @classmethod
    def unknown(cls, *missing: Missing) -> Answer:
        """Nobody told: which is not a no."""
        return cls((UNKNOWN,), missing=missing)


class EvidenceFunction(NamedTuple):
    name: str
    look: Callable[[Case], Answer]
    answers: frozenset[str]  # all that it may give, but for UNKNOWN


FUNCTIONS: Final[dict[str, EvidenceFunction]] = {}


def evidence(*answers: str) -> Callable[[Callable[[Case], Answer]], Callable[[Case], Answer]]:
    """Makes a function one that trees may name. Trees are checked against `answers` when they are read."""

    def register(look: Callable[[Case], Answer]) -> Callable[[Case], Answer]:
        name = look.__name__
        assert name not in FUNCTIONS, f"two evidence functions are called {name}"
        FUNCTIONS[name] = EvidenceFunction(name, look, frozenset(answers))
        return look

    return register
