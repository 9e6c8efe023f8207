"""Workloads with all that happened to them, as read lately: a page asks for one every few seconds, and of
most nothing happens for hours. One of which something is told is read again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.workload import WorkloadKey
    from trilens.store.workloads import WorkloadHistory

    Name = tuple[str, str, str]  # cluster, namespace and name: of whatever kind

_MOST: Final = 64
_KEPT_S: Final = 300.0  # what expires is told by nobody
_MOST_TOLD: Final = 1_000


class _Kept(NamedTuple):
    until_s: float
    found: list[WorkloadHistory]


class WorkloadMemory:
    """Thread-safe."""

    def __init__(self, written: Callable[[], int], clock_s: Callable[[], float] = time.monotonic) -> None:
        """`written` is the version up to which all that was told is on disk."""
        self._written = written
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._kept: dict[tuple[Name, str], _Kept] = {}
        self._told: dict[Name, int] = {}  # lately: what is not on disk yet is among it
        self._forgotten = 0  # up to this version it may lack some

    def told(self, key: WorkloadKey, version: int) -> None:
        """Something of it is on its way to disk."""
        name = (key.cluster, key.namespace, key.name)
        with self._lock:
            self._told[name] = max(version, self._told.get(name, 0))  # two threads may tell of it at once
            for kept in [kept for kept in self._kept if kept[0] == name]:
                del self._kept[kept]
            if len(self._told) > _MOST_TOLD:
                self._forgotten = upto = self._written()
                self._told = {one: at for one, at in self._told.items() if at > upto}

    def named(
        self, name: Name, kind: str, read: Callable[[], list[WorkloadHistory]]
    ) -> list[WorkloadHistory]:
        """What is known, or else what `read` gives: all there is. Nobody may change it."""
        with self._lock:
            kept = self._kept.get((name, kind))
            if kept is not None and kept.until_s > self._clock_s():
                return kept.found
        upto = self._written()
        found = read()
        with self._lock:
            if found and max(self._forgotten, self._told.get(name, 0)) <= upto:
                self._kept[name, kind] = _Kept(self._clock_s() + _KEPT_S, found)
                for oldest in [*self._kept][:-_MOST]:
                    del self._kept[oldest]
        return found
