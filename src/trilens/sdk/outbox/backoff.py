"""How long to leave a server alone that took nothing."""

from __future__ import annotations

import os
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0


class Backoff:
    """Twice as long each time, up to a bound; somewhere in its upper half, so that a thousand ranks do not
    come back at once."""

    def __init__(self) -> None:
        self._longest_s = FIRST_S

    def failed(self, retry_after_s: float | None) -> float:
        """Seconds until the next try."""
        longest_s = self._longest_s
        self._longest_s = min(LONGEST_S, 2 * longest_s)
        # Not of `random`: what the program draws from it must not depend on the server.
        part = int.from_bytes(os.urandom(2), "big") / 0xFFFF
        return max(longest_s * (0.5 + 0.5 * part), retry_after_s or 0.0)

    def succeeded(self) -> None:
        self._longest_s = FIRST_S
