"""Who this process is among others: its rank, its launcher, its job, its pod."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model import launch
from trilens.model.cgroups import read_cgroup

if TYPE_CHECKING:
    from collections.abc import Mapping

# JAX, and what the operators set for it.
_PROCESS_INDEX: Final = ("JAX_PROCESS_ID", "PROCESS_ID")
_PROCESS_COUNT: Final = ("JAX_NUM_PROCESSES", "NUM_PROCESSES")
_COORDINATORS: Final = (
    "MASTER_ADDR",
    "PET_MASTER_ADDR",
    "LWS_LEADER_ADDRESS",
    "JAX_COORDINATOR_ADDRESS",
    "COORDINATOR_ADDRESS",
)
_NO_SLURM_STEP: Final = (
    4_294_967_280  # Slurm numbers the batch script, interactive shells and others from here
)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_RUN_ID: Final = "none"  # what torchrun says when nobody gave it one
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
# The kubelet mounts a pod's /etc/hosts from a folder named after it, also where the control group hides it.
_POD_MOUNT: Final = re.compile(
    r"/pods/(?P<uid>[0-9a-f-]{36})/(?:etc-hosts|containers/(?P<container>[^/\s]+)/)"
)


class Identity(NamedTuple):
    """None is "nobody said so"."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int | None = None
    node_rank: int | None = None
    node: str = ""
    launcher: str | None = None  # torchrun, slurm, mpi, jobset, kubeflow, jax
    job: str | None = None  # what the launcher calls the job
    job_name: str | None = None  # what people call it
    coordinator: str | None = None  # where the ranks meet: host, or host:port
    restarts: int | None = None  # how often the launcher says that it began anew
    cluster: str | None = None  # as Trilens calls it
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    container: str | None = None

    @property
    def in_kubernetes(self) -> bool:
        return self.pod is not None

    @property
    def on_one_node(self) -> bool:
        """As far as is known: ranks that share a machine share their launcher's process."""
        host = (self.coordinator or "").rpartition(":")[0] or self.coordinator
        return self.world_size in (1, self.local_world_size) or host in _LOOPBACK


def identify(environ: Mapping[str, str], proc: Path = Path("/proc/self")) -> Identity:
    """From the environment; from PyTorch's process group, where the program has made one already."""
    group = _process_group()
    slurm_step = _slurm_step(environ)
    # A batch script of Slurm's has the variables of a rank too, but nobody started it as one of many.
    known = {k: v for k, v in environ.items() if slurm_step is not None or not k.startswith("SLURM_")}
    rank = launch.first_number(known, launch.RANK)
    world_size = launch.first_number(known, launch.WORLD_SIZE)
    if rank is None and world_size is None:
        rank = launch.first_number(known, _PROCESS_INDEX)
        world_size = launch.first_number(known, _PROCESS_COUNT)
    if group is not None:
        rank, world_size = group
    in_kubernetes = "KUBERNETES_SERVICE_HOST" in environ
    pod_uid, container = _pod_of(proc)
    launcher, job = _launcher(environ, slurm_step, in_kubernetes)
    return Identity(
        rank=rank or 0,
        world_size=max(world_size or 1, (rank or 0) + 1),
        local_rank=_local_rank(known, rank),
        local_world_size=launch.first_number(known, launch.LOCAL_WORLD_SIZE),
        node_rank=launch.first_number(known, launch.NODE_RANK),
        node=environ.get("NODE_NAME") or socket.gethostname(),
        launcher=launcher,
        job=job,
        job_name=_job_name(environ, in_kubernetes),
        coordinator=_coordinator(environ),
        restarts=launch.first_number(environ, ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")),
        cluster=environ.get("TRILENS_CLUSTER", "").strip() or None,
        namespace=_namespace(environ) if in_kubernetes else None,
        pod=environ.get("POD_NAME") or environ.get("HOSTNAME") or socket.gethostname()
        if in_kubernetes
        else None,
        pod_uid=environ.get("POD_UID") or pod_uid,
        container=environ.get("CONTAINER_NAME") or container,
    )


def _process_group() -> tuple[int, int] | None:
    """Programs that start their ranks themselves (multiprocessing) tell nobody else which one this is."""
    torch = sys.modules.get("torch.distributed")
    try:
        if torch is not None and torch.is_available() and torch.is_initialized():
            return torch.get_rank(), torch.get_world_size()
    except Exception:  # noqa: BLE001 - a half-loaded torch: the environment has to do
        return None
    return None


def _local_rank(environ: Mapping[str, str], rank: int | None) -> int:
    found = launch.first_number(environ, launch.LOCAL_RANK)
    if found is not None:
        return found
    size = launch.first_number(environ, launch.LOCAL_WORLD_SIZE)
    return (rank or 0) % size if size else 0


def _slurm_step(environ: Mapping[str, str]) -> str | None:
    """The number of the step that srun started this process in."""
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or ""
    if "SLURM_JOB_ID" not in environ or not step.isdecimal() or int(step) >= _NO_SLURM_STEP:
        return None
    return step


def _launcher(
    environ: Mapping[str, str], slurm_step: str | None, in_kubernetes: bool
) -> tuple[str | None, str | None]:
    """The one that knows the job: the cluster's scheduler before the program that started the ranks."""
    if job := environ.get("SLURM_JOB_ID"):
        return "slurm", f"{job}.{slurm_step}" if slurm_step is not None else job
    name = _job_name(environ, in_kubernetes)
    if in_kubernetes and any(variable.startswith("PET_") for variable in environ):
        return "kubeflow", name
    if in_kubernetes and "JOB_COMPLETION_INDEX" in environ:
        return "jobset" if "JOBSET_NAME" in environ else "job", name
    if run := environ.get("TORCHELASTIC_RUN_ID"):
        return "torchrun", None if run == _NO_RUN_ID else run
    if any(variable in environ for variable in launch.RANK[1:-1]):
        return "mpi", _mpi_job(environ)
    if any(variable in environ for variable in _PROCESS_INDEX) and "RANK" not in environ:
        return "jax", None
    return None, name


def _mpi_job(environ: Mapping[str, str]) -> str | None:
    """The same for all ranks of one mpirun, and another for the next."""
    return environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid") or None


def _job_name(environ: Mapping[str, str], in_kubernetes: bool) -> str | None:
    for variable in ("JOBSET_NAME", "SLURM_JOB_NAME"):
        if name := environ.get(variable):
            return name
    if not in_kubernetes:
        return None
    # The first pod, at which the ranks meet, is called after the job by Trainer and by the Training Operator.
    first = (_coordinator(environ) or "").partition(":")[0].partition(".")[0]
    for suffix in ("-node-0-0", "-master-0"):
        if first.endswith(suffix):
            return first.removesuffix(suffix)
    # An indexed Job's pods are called after it on the network: name-index. JobSet puts more between.
    index = environ.get("JOB_COMPLETION_INDEX")
    host = environ.get("HOSTNAME") or socket.gethostname()
    if index is not None and host.endswith(f"-{index}"):
        return host.removesuffix(f"-{index}")
    return None


def _coordinator(environ: Mapping[str, str]) -> str | None:
    for variable in _COORDINATORS:
        host = environ.get(variable)
        if not host:
            continue
        port = environ.get(variable.replace("_ADDR", "_PORT")) if variable.endswith("_ADDR") else None
        return f"{host}:{port}" if port else host
    return None


def _namespace(environ: Mapping[str, str]) -> str | None:
    if name := environ.get("POD_NAMESPACE"):
        return name
    try:
        return _SERVICE_ACCOUNT.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _pod_of(proc: Path) -> tuple[str | None, str | None]:
    """The uid of the pod, and the name of the container in it."""
    uid = read_cgroup(_text(proc / "cgroup")).pod_uid
    container = None
    for found in _POD_MOUNT.finditer(_text(proc / "mountinfo")):
        uid = uid or found["uid"]
        container = container or found["container"]
    return uid, container


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Ancestor(NamedTuple):
    """The process that started this one, and when: together used once."""

    pid: int
    start: str

    @classmethod
    def parent(cls, proc: Path = Path("/proc")) -> Ancestor:
        pid = os.getppid()
        return cls(pid, process_start(pid, proc) or "")


def process_start(pid: int, proc: Path = Path("/proc")) -> str | None:
    """In clock ticks since boot, as the kernel counts them."""
    stat = _text(proc / str(pid) / "stat")
    fields = stat[stat.rfind(")") + 1 :].split()  # from the state on: the name may hold spaces
    return fields[19] if len(fields) > 19 else None


def process_started_ms(proc: Path = Path("/proc")) -> int | None:
    """When this process started, as the agent tells it too."""
    ticks = process_start(os.getpid(), proc)
    for line in _text(proc / "stat").splitlines():
        if line.startswith("btime ") and ticks is not None:
            return int(line.split()[1]) * 1000 + round(int(ticks) * 1000 / os.sysconf("SC_CLK_TCK"))
    return None
