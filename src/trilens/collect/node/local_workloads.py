"""Where there is no Kubernetes: which GPU processes are one job.

By Slurm job, else torchrun's id, else process group; the user stands where the namespace does. A Slurm job
may run torchrun several times: it is what the user handed in, so it is the workload. Slurm's and torchrun's
ids are the same on every node of a job. A process group is one node's, and its number is used again: the
start of its leader tells one from the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.workload import WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.collect.node.processes import Process

_NO_ID: Final = "none"  # what torchrun calls a run that was given no id


class _Job(NamedTuple):
    user: str
    group: str
    kind: str
    uid: str


def group_processes(processes: Iterable[Process], node: str) -> dict[WorkloadKey, list[Process]]:
    """Jobs, each with its processes by rank, then by number."""
    jobs: dict[_Job, list[Process]] = {}
    for process in processes:
        jobs.setdefault(_job(process, node), []).append(process)
    return {
        WorkloadKey("", job.user, job.group, job.kind, _name(job, members), job.uid): sorted(
            members, key=lambda process: (process.rank is None, process.rank or 0, process.pid)
        )
        for job, members in jobs.items()
    }


def _job(process: Process, node: str) -> _Job:
    user = process.user or "unknown"
    if job := process.slurm_job:
        return _Job(user, "slurm", "Job", f"slurm-{job}")
    environment = process.environment
    if run := environment.get("TORCHELASTIC_RUN_ID"):
        # People use one id again and again; where the ranks meet keeps runs at the same time apart.
        meeting = f"{environment.get('MASTER_ADDR', node)}:{environment.get('MASTER_PORT', '')}"
        return _Job(user, "torchrun", "Run", f"torchrun-{run}@{meeting}")
    started = process.group_leader[1] if process.group_leader else 0
    return _Job(user, "", "ProcessGroup", f"{node}-{process.process_group}-{started}")


def _name(job: _Job, members: list[Process]) -> str:
    first = members[0]
    if job.group == "slurm":
        names = (member.environment.get("SLURM_JOB_NAME") for member in members)
        return next((name for name in names if name), job.uid.removeprefix("slurm-"))
    if job.group == "torchrun":
        run, _, meeting = job.uid.removeprefix("torchrun-").rpartition("@")
        return meeting if run == _NO_ID else run
    leader = first.group_leader[0] if first.group_leader else first.name
    return f"{leader}-{first.process_group}"
