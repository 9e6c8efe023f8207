"""Where a training or serving program shows its metrics, and whose program it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.model.workload import PodKey, WorkloadKey


class Program(NamedTuple):
    """An endpoint. None is "nobody said so"."""

    address: str  # host:port
    pod: PodKey
    workload: WorkloadKey
    attempt: int
    path: str = "/metrics"
    scheme: str = "http"
    node: str = ""
    role: str = ""
    container: str = ""
    node_rank: int | None = None
    rank: int | None = None  # of the process, which only the program itself knows
    team: str | None = None
    experiment: str | None = None
