"""What an export of costs leaves out, which a table of costs has no place for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def beside_the_file(headers: Mapping[str, str]) -> list[str]:
    told = []
    unpriced = headers.get("Trilens-Unpriced-Gpu-Hours", "0")
    if float(unpriced):
        told.append(f"{float(unpriced):,.1f} GPU-hours have no price and are not in it (see: trilens cost)")
    missing = int(headers.get("Trilens-Hours-Missing", "0"))
    if missing:
        told.append(f"nothing is booked for {missing:,} hour{'' if missing == 1 else 's'} of it")
    still_open = int(headers.get("Trilens-Hours-Open", "0"))
    if still_open:
        told.append(f"{_hours(still_open)} not over yet and in it so far")
    return told


def _hours(count: int) -> str:
    return f"{count:,} hour{' is' if count == 1 else 's are'}"
