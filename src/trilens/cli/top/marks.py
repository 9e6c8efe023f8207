"""Signs that stand for states and curves: colour never says it alone, and a terminal may know ASCII only."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLES: Final = {
    "critical": "bold red",
    "warning": "yellow",
    "info": "cyan",
    "ok": "green",
    "busy": "green",
    "wasted": "yellow",
    "idle": "cyan",
    "broken": "bold red",
    "unknown": "dim",
}
_HEALTH: Final = {"critical": "✖", "warning": "▲", "info": "•", "ok": "●", "unknown": "-"}
_STATES: Final = {"busy": "█", "wasted": "▒", "idle": "░", "broken": "✖", "unknown": "?"}


class Marks(NamedTuple):
    health: dict[str, str]
    states: dict[str, str]
    curve: str
    down: str
    up: str

    def sparkline(self, shares: Sequence[float]) -> str:
        """Of shares from 0 to 1, on that scale: idle looks idle. A blank is unknown."""
        top = len(self.curve) - 1
        return "".join(
            self.curve[round(min(max(share, 0.0), 1.0) * top)] if math.isfinite(share) else " "
            for share in shares
        )


UNICODE: Final = Marks(_HEALTH, _STATES, "▁▂▃▄▅▆▇█", "↓", "↑")
ASCII: Final = Marks(
    {"critical": "X", "warning": "!", "info": "i", "ok": ".", "unknown": "-"},
    {"busy": "#", "wasted": "=", "idle": ".", "broken": "X", "unknown": "?"},
    "_.-=+*#@",
    "v",
    "^",
)


def marks() -> Marks:
    """As much as the terminal can show."""
    try:
        "".join((UNICODE.curve, *_HEALTH.values(), *_STATES.values())).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
