"""What others say of an Xid, and where they disagree whom we followed and why (vendors.yml)."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from trilens.model.packaged_yaml import packaged_yaml

_GRADED: Final = ("gpud", "nvsentinel")  # NVIDIA's catalogue knows actions, and no grades
_FATAL: Final = "fatal"


class Opinion(NamedTuple):
    vendor: str
    source: str  # which version of what
    first: str  # NVIDIA: what to do at once; the others: how grave it is
    second: str  # NVIDIA: what to look at later; the others: what to do


class Followed(NamedTuple):
    who: str  # a vendor, or trilens where none was
    why: str


def opinions(code: int) -> tuple[Opinion, ...]:
    table = _table()
    said = table["says"].get(code, {})
    return tuple(Opinion(vendor, table["sources"][vendor], *words) for vendor, words in said.items())


def disagree(code: int) -> bool:
    """On whether it is fatal."""
    grades = {one.first == _FATAL for one in opinions(code) if one.vendor in _GRADED}
    return len(grades) > 1


def followed(code: int) -> Followed | None:
    """None where all say the same, and NVIDIA's catalogue says it plainly."""
    found = next((one for one in _table()["followed"] if code in one["codes"]), None)
    return Followed(found["who"], found["why"]) if found else None


@cache
def _table() -> Any:
    return packaged_yaml("trilens.diagnose.xid", "vendors.yml")
