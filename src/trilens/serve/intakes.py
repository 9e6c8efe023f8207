"""All that tells of workloads now, as one: watched clusters, and machines whose agents are asked."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.workload import PodKey, WorkloadKey


class WorkloadIntake(Protocol):
    """Everything may be called from any thread."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the clusters it tells of."""

    def warnings(self) -> list[str]:
        """Why what is shown may not be all, or not be new."""

    def ready_pods(self) -> Mapping[WorkloadKey, frozenset[PodKey]]:
        """The pods that do their work now; a workload that is not here is one that nobody knows about now."""


class Intakes:
    def __init__(self, intakes: tuple[WorkloadIntake, ...]) -> None:
        self._intakes = intakes

    @classmethod
    def of(cls, *intakes: WorkloadIntake | None) -> Intakes | None:
        """None where there is none."""
        there = tuple(intake for intake in intakes if intake is not None)
        return cls(there) if there else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for intake in self._intakes for name in intake.names)

    def warnings(self) -> list[str]:
        return [line for intake in self._intakes for line in intake.warnings()]

    def ready_pods(self) -> Mapping[WorkloadKey, frozenset[PodKey]]:
        return ChainMap(*(dict(intake.ready_pods()) for intake in self._intakes))
