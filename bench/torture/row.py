"""What a row of the torture table is."""

from __future__ import annotations

from dataclasses import dataclass
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_WHOLE: Final = 0.99  # a timer may end a moment early
# What must hold did not; a server did not come up, did not answer in time, or with something else than it
# should. Of anything else nobody can tell whose fault it is.
MISSES: Final = (
    AssertionError,
    pytest.fail.Exception,
    httpx.HTTPError,
    TimeoutExpired,
    LookupError,
    ValueError,
)


class Wanted(NamedTuple):
    """How long, and where it keeps what it needs to go on. What is in the folder counts: whoever begins anew
    has emptied it before."""

    folder: Path
    length: float  # seconds, or times

    def is_whole(self, done: float) -> bool:
        return done >= _WHOLE * self.length


@dataclass(frozen=True)
class Outcome:
    """`done` in the row's own unit, as it was measured. `told` are the figures in a line; `more` goes below
    the table."""

    passed: bool
    done: float
    told: str
    more: str = ""
    was_run: bool = True  # False where something that it needs is not there: that says nothing of Trilens

    @property
    def is_missed(self) -> bool:
        return self.was_run and not self.passed


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    goal: str
    length: float
    unit: str  # "s" or "times"
    run: Callable[[Wanted], Outcome]
    reader: str | None = None  # the module that is tried, where that is not all of Trilens

    def is_whole(self, done: float) -> bool:
        """Whether it was as long as the table asks; one that was tried for a while was not."""
        return done >= _WHOLE * self.length
