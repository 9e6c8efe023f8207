"""How long to wait before trying again."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubles up to a limit. What failed for many at once must not come back from all of them at once."""

    first_s: float
    limit_s: float
    _next_s: float = 0.0

    def next_s(self, at_least_s: float = 0.0) -> float:
        """`at_least_s` is what the other side asks for."""
        wait_s = max(self._next_s, self.first_s)
        self._next_s = min(2 * wait_s, self.limit_s)
        return max(jittered(wait_s), at_least_s)

    def reset(self) -> None:
        self._next_s = 0.0


def jittered(wait_s: float) -> float:
    return wait_s * random.uniform(0.5, 1.5)  # noqa: S311 - no secret hangs on it
