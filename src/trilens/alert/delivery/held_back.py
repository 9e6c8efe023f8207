"""Why somebody is not told of an incident that lasts."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Hold(StrEnum):
    SILENCE = "silence"
    INHIBITED = "inhibited"
    QUIET = "quiet"  # it is told afterwards, if it still lasts
    NO_ROUTE = "no-route"
    NO_RECEIVER = "no-receiver"  # nobody is ever told of anything


class HeldBack(NamedTuple):
    why: Hold
    name: str  # the silence's id, or the receiver that is in its quiet time; else empty
    text: str
    until_ms: int | None = None  # None where nobody knows
