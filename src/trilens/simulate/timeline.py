"""What is to happen when, in order."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.cluster import Cluster


class Timeline:
    """Things at one moment happen in the order in which they were planned."""

    def __init__(self, clock: Cluster) -> None:
        self._clock = clock
        self._plans: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._made = 0

    def after(self, seconds: float, action: Callable[..., object], *args: Any) -> None:
        self._made += 1
        at_ms = self._clock.now_ms + max(0, round(seconds * 1000))
        heapq.heappush(self._plans, (at_ms, self._made, action, args))

    def run_until(self, to_ms: int) -> None:
        while self._plans and self._plans[0][0] <= to_ms:
            at_ms, _, action, args = heapq.heappop(self._plans)
            self._clock.now_ms = at_ms
            action(*args)
        self._clock.now_ms = to_ms
