"""Where findings are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.finding import FindingInterval
    from trilens.model.workload import GpuUuid, WorkloadKey


class FindingLog(Protocol):
    """Thread-safe. An interval told again replaces what was told."""

    def put(self, intervals: Sequence[FindingInterval]) -> None: ...

    def during(
        self, from_ms: int, to_ms: int, *, naming: WorkloadKey | GpuUuid | None = None
    ) -> Sequence[FindingInterval]:
        """Those that lasted at some time of it, in the order in which they were detected; `naming` leaves out
        those that do not name it."""

    def open(self) -> Sequence[FindingInterval]: ...
