"""The machines that there are now: asked of the records seldom, as they seldom change."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.model.machine import Machine, MachineInterval
    from trilens.model.query import QueryGuard

_EVERY_S: Final = 15.0  # as often as they are looked at


class MachineSource(Protocol):
    def unfinished(self) -> Sequence[MachineInterval]: ...


class KnownMachines:
    """Thread-safe."""

    def __init__(self, records: MachineSource, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._records = records
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._asked_s: float | None = None
        self._intervals: Sequence[MachineInterval] = ()

    def unfinished(self) -> Sequence[MachineInterval]:
        with self._lock:
            if self._asked_s is None or self._clock_s() - self._asked_s >= _EVERY_S:
                self._intervals = self._records.unfinished()
                self._asked_s = self._clock_s()
            return self._intervals

    def lasting(self, guard: QueryGuard) -> Sequence[Machine]:
        guard.check()
        return [one.machine for one in self.unfinished()]
