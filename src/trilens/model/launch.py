"""What launchers put into the environment of the processes they start: their place among the others.

The agent reads it of other processes, the SDK of its own. In each list the launcher that started a process
last comes first: torchrun inside srun sets RANK anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

RANK: Final = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
)
LOCAL_RANK: Final = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
)
WORLD_SIZE: Final = (
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
)
LOCAL_WORLD_SIZE: Final = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
)
NODE_RANK: Final = ("GROUP_RANK", "NODE_RANK", "PET_NODE_RANK", "SLURM_NODEID")

# Names and places of a job. Never the whole environment: it holds secrets.
PLACING_VARIABLES: Final = frozenset(
    {
        *RANK,
        *LOCAL_RANK,
        *WORLD_SIZE,
        *LOCAL_WORLD_SIZE,
        *NODE_RANK,
        *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
        *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_STEP_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
        *("SLURM_RESTART_COUNT", "JOB_COMPLETION_INDEX", "HOSTNAME"),
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    }
)


def first_number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return None
