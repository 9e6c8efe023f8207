"""From the kernel's clock, which counts from boot, to the time of day."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SETTLED_US: Final = 10_000_000  # a skew is only worth spreading over a boot longer than this


class BootClock:
    """The log's clock is not disciplined by NTP and drifts from the others, minutes in a hundred days.

    A record that is read the moment it is written shows by how much. Older ones are corrected in proportion:
    half as long after boot, half the skew. Nothing is ever placed in the future.
    """

    def __init__(
        self,
        wall_ms: Callable[[], float] = lambda: time.time() * 1000,
        monotonic_us: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6,
    ) -> None:
        self._wall_ms = wall_ms
        self._monotonic_us = monotonic_us
        self._skew_us = 0.0  # how far the log's clock is behind the monotonic one ...
        self._at_us = 0.0  # ... at this reading of it

    def learn(self, boot_us: int) -> None:
        """A record with this stamp was written just now."""
        self._skew_us = self._monotonic_us() - boot_us
        self._at_us = float(boot_us)

    def wall_ms(self, boot_us: int) -> int:
        skew = self._skew_us
        if self._at_us > _SETTLED_US:
            skew *= min(1.0, boot_us / self._at_us)
        age_us = max(0.0, self._monotonic_us() - boot_us - skew)
        return round(self._wall_ms() - age_us / 1000)
