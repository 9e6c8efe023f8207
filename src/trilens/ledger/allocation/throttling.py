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

    def __init__(self, from_ms: int, sums: list[int]) -> None:
        self._from_ms = from_ms
        self._sums = sums  # millionths of minutes that were throttled, up to each minute's beginning

    def part_of(self, ms: int, from_ms: int, to_ms: int) -> int:
        """How many of `ms`, which lie somewhere between the two."""
        slow = self._until(to_ms) - self._until(from_ms)
        return ms * slow // ((to_ms - from_ms) * _WHOLE)

    def _until(self, moment_ms: int) -> int:
        """Millionths of milliseconds, from the first minute on."""
        minute, rest_ms = divmod(moment_ms - self._from_ms, MINUTE_MS)
        sums = self._sums
        if minute < 0:
            return 0
        if minute + 1 >= len(sums):
            return sums[-1] * MINUTE_MS
        return sums[minute] * MINUTE_MS + rest_ms * (sums[minute + 1] - sums[minute])


def throttling_of(gpus: GpuMinutes, from_ms: int, to_ms: int) -> dict[GpuKey, Throttling]:
    """Of those that were throttled at all: few."""
    first = max((from_ms - gpus.from_ms) // MINUTE_MS, 0)
    end = max(-(-(to_ms - gpus.from_ms) // MINUTE_MS), first)
    told = gpus.throttled[:, first:end]
    slow = np.flatnonzero(np.any(told > 0.0, axis=1))
    if not len(slow):
        return {}
    parts = np.minimum(np.fmax(told[slow], 0.0), 1.0)  # not told is not throttled
    sums = np.zeros((len(slow), told.shape[1] + 1), np.int64)
    np.cumsum(np.rint(parts * _WHOLE).astype(np.int64), axis=1, out=sums[:, 1:])
    of_row = dict(zip(slow.tolist(), sums.tolist(), strict=True))
    begin = gpus.from_ms + first * MINUTE_MS
    return {
        GpuKey(GpuUuid(uuid), instance): Throttling(begin, of_row[row])
        for (uuid, instance), row in gpus.gpus.items()
        if row in of_row
    }
