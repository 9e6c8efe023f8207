"""Which variables of a container are looked at: those that place a process among others, or name its run."""

from __future__ import annotations

from typing import Any, Final

_NAMES: Final = frozenset(
    (
        *("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NNODES"),
        *("NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX", "REPLICA_INDEX"),
        *("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
        *("PET_RDZV_ID", "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"),
        *("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"),
        *("JOBSET_NAME", "REPLICATED_JOB_NAME", "JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS"),
        *("NUM_PROCESSES", "PROCESS_ID", "OMPI_MCA_orte_default_hostfile", "VC_TASK_INDEX", "VK_TASK_INDEX"),
        *("RAY_CLUSTER_NAME", "RAY_ADDRESS", "FQ_RAY_IP", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        *("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"),
        *("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_ID", "WANDB_RUN_GROUP", "WANDB_NAME"),
        *("TRILENS_EXPERIMENT", "TRILENS_RUN", "TRILENS_TEAM"),
    )
)


def keep_known_variables(pod: dict[str, Any]) -> None:
    """Name with plain value, or with the field of the pod that it comes from. No other source is kept."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    for key in ("containers", "initContainers"):
        for container in _listed(spec.get(key)):
            if "env" in container:
                known = [variable for variable in _listed(container["env"]) if _is_known(variable)]
                if known:
                    container["env"] = known
                else:
                    del container["env"]


def _listed(value: Any) -> list[dict[str, Any]]:
    """Whatever else an object may hold there."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_known(variable: dict[str, Any]) -> bool:
    name = variable.get("name")
    return isinstance(name, str) and name in _NAMES
