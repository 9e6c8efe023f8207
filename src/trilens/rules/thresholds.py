"""The numbers that alerts compare with: which there are, and other ones in their place."""

from __future__ import annotations

import difflib
import math
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = "thresholds.yml"
_ENTRY: Final = re.compile(r"(labels: \{of: (\w+)\}\n +expr: vector\()([^)\n]+)(\))")


@cache
def thresholds() -> Mapping[str, float]:
    """As they are shipped, in the order of the file."""
    text = (files("trilens.rules") / FILE).read_text(encoding="utf-8")
    return {found[2]: float(found[3]) for found in _ENTRY.finditer(text)}


def threshold_problem(values: Mapping[str, float]) -> str | None:
    """What is wrong with the first of these that cannot be one."""
    for name, value in values.items():
        if name not in thresholds():
            near = difflib.get_close_matches(name, thresholds(), n=1)
            return f"there is no threshold {name!r}" + (f"; do you mean {near[0]!r}?" if near else "")
        if not math.isfinite(value):
            return f"the threshold {name} cannot be {value}"
    return None


def with_thresholds(text: str, values: Mapping[str, float]) -> str:
    """The text of a rule file with these numbers; only one file has any."""

    def replaced(found: re.Match[str]) -> str:
        number = f"{values[found[2]]:.15g}" if found[2] in values else found[3]
        return f"{found[1]}{number}{found[4]}"

    return _ENTRY.sub(replaced, text)
