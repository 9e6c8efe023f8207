"""How much of a GPU's time a slowdown held its clocks down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.ledger.telemetry.minutes import MINUTE_MS
from trilens.model.gpu import GpuKey
from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from trilens.ledger.source import GpuMinutes

_WHOLE: Final = 1_000_000  # a minute in millionths: what is counted is counted in whole numbers


class Throttling:
    """Of one GPU."""

    def __init__(self, from_ms: int, minutes: list[int]) -> None:
        self._from_ms = from_ms
        self._minutes = minutes  # millionths of each that were throttled

    def part_of(self, ms: int, from_ms: int, to_ms: int) -> int:
        """How many of `ms`, which lie somewhere between the two."""
        slow = 0
        first = max((from_ms - self._from_ms) // MINUTE_MS, 0)
        for minute in range(first, len(self._minutes)):
            begin = self._from_ms + minute * MINUTE_MS
            if begin >= to_ms:
                break
            overlap = min(begin + MINUTE_MS, to_ms) - max(begin, from_ms)
            slow += overlap * self._minutes[minute]
        return ms * slow // ((to_ms - from_ms) * _WHOLE)


def throttling_of(gpus: GpuMinutes, from_ms: int, to_ms: int) -> dict[GpuKey, Throttling]:
    """Of those that were throttled at all: few."""
    first = max((from_ms - gpus.from_ms) // MINUTE_MS, 0)
    end = max(-(-(to_ms - gpus.from_ms) // MINUTE_MS), first)
    told = np.clip(np.nan_to_num(gpus.throttled[:, first:end], nan=0.0), 0.0, 1.0)
    slow = set(np.flatnonzero(np.any(told > 0.0, axis=1)).tolist())
    if not slow:
        return {}
    begin = gpus.from_ms + first * MINUTE_MS
    return {
        GpuKey(GpuUuid(uuid), instance): Throttling(begin, np.rint(told[row] * _WHOLE).astype(int).tolist())
        for (uuid, instance), row in gpus.gpus.items()
        if row in slow
    }
