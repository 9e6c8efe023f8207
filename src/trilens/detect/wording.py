"""How findings name things, so that all of them read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.detect.scene import JobView, RankView
    from trilens.model.workload import WorkloadKey


def workload_name(workload: WorkloadKey) -> str:
    return f"{workload.kind} {workload.namespace}/{workload.name}".strip()


def job_name(job: JobView) -> str:
    """A run by its id, as the labels of alerts have it: several may have one name."""
    if job.workload is not None:
        return workload_name(job.workload)
    return f"run {job.run.run}" if job.run is not None else f"job {job.name}".strip()


def rank_name(rank: RankView) -> str:
    node = rank.process.node if rank.process is not None else ""
    return f"rank {rank.rank} on {node}" if node else f"rank {rank.rank}"


def seconds(ms: float) -> str:
    """14 s, 2.5 s, 3 min, 1.5 h: as exact as anybody needs it."""
    s = ms / 1000
    if s < 10:
        return f"{s:.1f} s"
    if s < 120:
        return f"{s:.0f} s"
    return f"{s / 60:.0f} min" if s < 7200 else f"{s / 3600:.1f} h"
