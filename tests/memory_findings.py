"""A log of findings that lasts as long as its process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.finding import FindingInterval, FindingKey
    from trilens.model.workload import GpuUuid, WorkloadKey


class MemoryFindings:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[FindingKey, int], FindingInterval] = {}

    def put(self, intervals: Sequence[FindingInterval]) -> None:
        with self._lock:
            for one in intervals:
                self._kept[one.key, one.detected_ms] = one

    def during(
        self, from_ms: int, to_ms: int, *, naming: WorkloadKey | GpuUuid | None = None
    ) -> Sequence[FindingInterval]:
        with self._lock:
            kept = list(self._kept.values())
        found = [
            one
            for one in kept
            if one.detected_ms <= to_ms
            and (one.ended_ms is None or one.ended_ms >= from_ms)
            and naming in (None, one.finding.subject.workload, one.finding.subject.gpu)
        ]
        return sorted(found, key=lambda one: one.detected_ms)

    def open(self) -> Sequence[FindingInterval]:
        with self._lock:
            return [one for one in self._kept.values() if one.ended_ms is None]
