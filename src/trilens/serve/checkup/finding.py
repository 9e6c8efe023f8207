"""What a check found, and the layers that checks belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_EXAMPLES: Final = 3


class Finding(NamedTuple):
    check: str
    is_problem: bool  # or only worth knowing
    what: str
    means: str
    remedy: str


class Layer(NamedTuple):
    """A part of the system: what is there of it, in a few words, and what may be wrong with it. All of it
    is asked of one kind of evidence."""

    name: str
    sees: Callable[[Any], str]
    checks: tuple[Callable[[Any], Iterator[Finding]], ...]


class Examined(NamedTuple):
    layer: str
    sees: str
    found: tuple[Finding, ...]

    @property
    def state(self) -> str:
        if any(one.is_problem for one in self.found):
            return "problem"
        return "note" if self.found else "ok"


def few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_EXAMPLES])
    return f"{shown} and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else shown


def many(count: float, one: str, more: str | None = None) -> str:
    return f"{count:,.0f} {one if count == 1 else more or f'{one}s'}"
