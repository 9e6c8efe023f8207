"""A machine as its agent sees it: which processes are on its GPUs, and which of them are one job."""

from __future__ import annotations

from typing import Final, NamedTuple

# What is in annotations here is read when a bundle is read.
from trilens.model.gpu import GpuKey  # noqa: TC001
from trilens.model.workload import WorkloadKey  # noqa: TC001

# A start is told as boot plus ticks, and the time of boot is known to a second: it moves when a clock is set.
SAME_START_MS: Final = 2_000


class Restarts(NamedTuple):
    """How often a process's launchers began anew before it: the outer one first."""

    slurm: int = 0
    torchrun: int = 0


class LocalProcess(NamedTuple):
    """A process on a GPU that is in no pod."""

    pid: int
    name: str
    started_ms: int
    rank: int | None
    local_rank: int | None
    restarts: Restarts
    gpus: tuple[GpuKey, ...]


class LocalJob(NamedTuple):
    """Processes of one machine that are one job, or the part of one that runs there."""

    workload: WorkloadKey  # its cluster is left open: an agent does not know how the server calls it
    processes: tuple[LocalProcess, ...]


class Hardware(NamedTuple):
    """What the machine has beside its GPUs. None where its agent does not tell."""

    cpus: int | None = None
    memory_bytes: int | None = None


class NodeJobs(NamedTuple):
    """All of them on one machine, at one look."""

    node: str
    jobs: tuple[LocalJob, ...]
    hardware: Hardware = Hardware()


def member_name(node: str, name: str, pid: int) -> str:
    """What a process is called where pods have their name: two machines may have the same process number."""
    return f"{name}-{pid}@{node}"


def member_uid(node: str, pid: int, started_ms: int) -> str:
    """Process numbers are used again; together with the start they are not."""
    return f"{node}:{pid}:{started_ms}"
