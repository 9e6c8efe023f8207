"""Pods of workloads that went away lately, as they were at their end: a controller that begins a job again
may delete what failed before anybody has looked."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.kubernetes import KubeObject
    from trilens.model.workload import PodKey, WorkloadKey

KEPT_MS: Final = 10 * 60_000


class Departed(NamedTuple):
    pod: KubeObject
    key: PodKey
    at_ms: int  # when it was gone


class DepartedPods:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._of: defaultdict[WorkloadKey, list[Departed]] = defaultdict(list)

    def add(self, workload: WorkloadKey, departed: Departed) -> None:
        self._of[workload].append(departed)

    def of(self, workload: WorkloadKey) -> Sequence[Departed]:
        return self._of.get(workload, ())

    def forget(self, workload: WorkloadKey) -> None:
        self._of.pop(workload, None)

    def forget_old(self, now_ms: int) -> None:
        for workload, pods in list(self._of.items()):
            if now_ms - pods[0].at_ms > KEPT_MS:  # they came in the order in which they went
                self._of[workload] = [one for one in pods if now_ms - one.at_ms <= KEPT_MS]
                if not self._of[workload]:
                    del self._of[workload]
