"""How often somebody may ask: a bucket each that fills by itself, and that every request takes from."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE_S: Final = 10.0  # a full bucket holds what flows in during this time
_MOST: Final = 10_000  # buckets kept of each kind: about 2 MB


class Buckets:
    """Not thread-safe: of the event loop. Who has not asked for longest is forgotten first, which only fills
    that bucket again."""

    def __init__(
        self, per_s: float, most: int = _MOST, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._room = max(1.0, per_s * _AT_ONCE_S)
        self._most = most
        self._clock_s = clock_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how much, as of when

    def __len__(self) -> int:
        return len(self._left)

    def take(self, key: str) -> int | None:
        """None where there was something to take; else in how many seconds there will be."""
        now_s = self._clock_s()
        left = self._filled(key, now_s)
        is_empty = left < 1
        self._left[key] = (left if is_empty else left - 1, now_s)
        self._left.move_to_end(key)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return math.ceil((1 - left) / self._per_s) if is_empty else None

    def wait_s(self, key: str) -> int | None:
        """The same, with nothing taken."""
        left = self._filled(key, self._clock_s())
        return math.ceil((1 - left) / self._per_s) if left < 1 else None

    def _filled(self, key: str, now_s: float) -> float:
        left, since_s = self._left.get(key, (self._room, now_s))
        return min(self._room, left + (now_s - since_s) * self._per_s)


class Limits:
    """Strangers have buckets of their own, so that many of them make nobody known forgotten."""

    def __init__(
        self,
        requests_per_s: float = 500,
        intake_per_s: float = 5000,
        failures_per_s: float = 10,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.requests = Buckets(requests_per_s, clock_s=clock_s)
        self.intake = Buckets(intake_per_s, clock_s=clock_s)
        self.failures = Buckets(failures_per_s, clock_s=clock_s)
        self.logins = Buckets(failures_per_s / 10, clock_s=clock_s)  # of each address, failed ones
