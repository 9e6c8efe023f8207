"""How series are chosen by their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Matcher:
    """One `name op "value"` of a selector. A regular expression is anchored at both ends, in RE2 syntax."""

    name: str
    op: Literal["=", "!=", "=~", "!~"]
    value: str
