"""Which driver a CUDA version needs: the table in cuda_drivers.yml."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

import yaml

Version = tuple[int, ...]

_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


def version(written: str) -> Version:
    """() for what is none."""
    found = _NUMBERS.search(written)
    return tuple(map(int, found.group().split("."))) if found is not None else ()


def driver_needed(cuda: str) -> str | None:
    """The oldest that does; None for a CUDA that the table does not know."""
    asked = version(cuda)
    newest = _table()[0][0]
    if not asked or asked[0] > newest[0]:
        return None
    return next((driver for known, driver in _table() if known <= asked), None)


@cache
def _table() -> list[tuple[Version, str]]:
    text = (resources.files("trilens.diagnose") / "cuda_drivers.yml").read_text()
    return [(version(row["cuda"]), row["driver"]) for row in yaml.safe_load(text)]
