"""A scenario: which machines, who comes with what work, and what goes wrong when.

Written as YAML, read by `load_scenario`. Every field is described in docs/simulator.md, and a test says so.
"""

from __future__ import annotations

import re
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from trilens.model.errors import ConfigError
from trilens.simulate.hardware import MODELS, mig_instances
from trilens.simulate.inference_load import LOADS

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(written: Any) -> Any:
    """`90s`, `2h`, `1h30m`; a plain number is seconds."""
    if not isinstance(written, str):
        return written
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise ValueError(f"{written!r} is no duration: write 90s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobKind(StrEnum):
    JOB = "Job"
    JOBSET = "JobSet"
    TRAINJOB = "TrainJob"
    PYTORCHJOB = "PyTorchJob"
    MPIJOB = "MPIJob"
    RAYJOB = "RayJob"
    DEPLOYMENT = "Deployment"
    INFERENCE_SERVICE = "InferenceService"
    LEADERWORKERSET = "LeaderWorkerSet"
    NOTEBOOK = "Notebook"

    @property
    def trains(self) -> bool:
        return self not in _SERVICES

    @property
    def serves(self) -> bool:
        return self in _SERVICES and self is not JobKind.NOTEBOOK


_SERVICES = (JobKind.DEPLOYMENT, JobKind.INFERENCE_SERVICE, JobKind.LEADERWORKERSET, JobKind.NOTEBOOK)


class FaultKind(StrEnum):
    XID = "xid"
    THERMAL = "thermal"
    STRAGGLER = "straggler"
    HANG = "hang"
    SLOW_DATA = "slow-data"
    NAN = "nan"
    CHECKPOINT_FAILING = "checkpoint-failing"
    OOM_KILLED = "oom-killed"
    IMAGE_PULL = "image-pull"
    PREEMPTION = "preemption"
    GPU_LOST = "gpu-lost"
    NODE_NOT_READY = "node-not-ready"
    EXPORTER_SILENT = "exporter-silent"
    SPOT_RECLAIM = "spot-reclaim"
    BAD_BATCH = "bad-batch"
    STUCK_DATA = "stuck-data"
    GIL_HELD = "gil-held"
    PROCESS_DEAD = "process-dead"
    EXCEPTION = "exception"
    CPU_FALLBACK = "cpu-fallback"
    DIVERGING = "diverging"
    PLATEAU = "plateau"
    PROF_STUCK = "prof-stuck"
    READINGS_FROZEN = "readings-frozen"
    READINGS_BLANK = "readings-blank"
    LABELS_LOST = "labels-lost"


class CalmKind(StrEnum):
    """What looks like trouble, and is none."""

    VALIDATION = "validation"
    COMPILATION = "compilation"
    HICCUP = "hiccup"
    FLAT_LOSS = "flat-loss"
    LOSS_SPIKE = "loss-spike"
    DRAIN = "drain"
    SCALING = "scaling"
    OLD_XID = "old-xid"


class Pool(_Part):
    """Machines that are all the same."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    model: str
    nodes: int = Field(ge=1)
    gpus_per_node: int = Field(default=8, ge=1, le=16)
    last_node_gpus: int | None = Field(default=None, ge=1, le=16)
    mig: str | None = None
    time_slices: int = Field(default=1, ge=1, le=48)
    spot: bool = False
    instance_type: str | None = None
    region: str = "us-east-1"
    zone: str = "us-east-1a"
    nodes_per_rack: int = Field(default=4, ge=1)

    @model_validator(mode="after")
    def _makes_sense(self) -> Pool:
        if self.model not in MODELS:
            raise ValueError(f"model {self.model!r} is not known; there are {', '.join(MODELS)}")
        if self.mig is not None and self.time_slices > 1:
            raise ValueError("mig and time_slices exclude each other here")
        if self.mig is not None:
            mig_instances(MODELS[self.model], self.mig)
        return self

    @property
    def gpus(self) -> int:
        return (self.nodes - 1) * self.gpus_per_node + (self.last_node_gpus or self.gpus_per_node)

    @property
    def places_per_gpu(self) -> int:
        """How many pods can have a part of one GPU."""
        return mig_instances(MODELS[self.model], self.mig) if self.mig else self.time_slices


class Queue(_Part):
    """A Kueue ClusterQueue with a LocalQueue of the same name in every namespace that uses it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    pool: str
    gpus: int = Field(ge=1)


class Arrivals(_Part):
    at_start: int = Field(default=0, ge=0)
    per_hour: float = Field(default=0.0, ge=0)
    at: tuple[Seconds, ...] = ()


class Training(_Part):
    """One rank's step, in seconds, and what comes around it."""

    data_s: float = Field(default=0.04, gt=0)
    forward_s: float = Field(default=0.35, gt=0)
    backward_s: float = Field(default=0.70, gt=0)
    grad_sync_s: float = Field(default=0.12, ge=0)
    optimizer_s: float = Field(default=0.08, gt=0)
    samples_per_step: int = Field(default=32, ge=1)
    first_loss: float = Field(default=11.0, gt=0)
    last_loss: float = Field(default=1.9, gt=0)
    checkpoint_every: int = Field(default=500, ge=1)
    checkpoint: Seconds = 25.0
    checkpoint_bytes: float = Field(default=2.8e10, gt=0)
    validate_every: int = Field(default=1000, ge=1)
    dataset_samples: int = Field(default=50_000_000, ge=1)
    shuffled: bool = False  # samples come in another order in each epoch
    jitter: float = Field(default=0.0, ge=0, le=10)  # of steps, as times of what was measured
    spread: float = Field(default=0.006, ge=0, le=0.2)  # of the ranks' pace, which stays as it is
    flight_recorder: bool = False  # PyTorch remembers collectives, and the ranks send that when they stall


class Serving(_Part):
    """What comes to one replica: `load` names a fitted kind of traffic."""

    load: str = "conversation"
    requests_per_second: float = Field(default=2.0, gt=0)
    capacity: float = Field(default=4.0, gt=0)  # requests a second that it can take
    model_name: str = "meta-llama/Llama-3.1-8B-Instruct"

    @field_validator("load")
    @classmethod
    def _is_known(cls, load: str) -> str:
        if load not in LOADS:
            raise ValueError(f"{load!r} is not known; there are {', '.join(LOADS)}")
        return load


class JobTemplate(_Part):
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")
    kind: JobKind
    namespace: str
    team: str
    experiment: str = ""
    pool: str
    queue: str = ""
    pods: int = Field(default=1, ge=1)
    gpus_per_pod: int = Field(default=8, ge=1)
    groups: int = Field(default=1, ge=1)  # LeaderWorkerSet: how many groups of `pods`
    arrivals: Arrivals = Arrivals()
    duration: Seconds | None = None
    duration_spread: float = Field(default=0.4, ge=0, le=2)
    retries: int = Field(default=3, ge=0)
    priority: int = 0
    tolerates_gpu_nodes: bool = True  # without it no node takes its pods: somebody has forgotten a line
    image: str = "ghcr.io/acme/train:2.7"
    pull: Seconds = 20.0
    start: Seconds = 15.0
    training: Training = Training()
    serving: Serving = Serving()

    @property
    def gpus(self) -> int:
        return self.pods * self.groups * self.gpus_per_pod


class Fault(_Part):
    """`at` from the beginning, or at random `per_hour`. What is left out is chosen at random."""

    kind: FaultKind
    at: Seconds | None = None
    per_hour: float = Field(default=0.0, ge=0)
    lasts: Seconds = 600.0
    job: str = ""  # a template's name
    rank: int | None = Field(default=None, ge=0)
    node: int | None = Field(default=None, ge=0)
    gpu: int | None = Field(default=None, ge=0)
    code: int = Field(default=79, ge=1)
    factor: float = Field(default=1.6, gt=1)
    whole_node: bool = False  # thermal: all ranks of that node, not one

    @model_validator(mode="after")
    def _happens(self) -> Fault:
        if (self.at is None) == (self.per_hour == 0):
            raise ValueError("say either at or per_hour")
        return self


class Calm(_Part):
    """`at` from the beginning. What is left out is chosen at random."""

    kind: CalmKind
    at: Seconds
    lasts: Seconds = 60.0
    job: str = ""  # a template's name
    node: int | None = Field(default=None, ge=0)
    factor: float = Field(default=1.6, gt=1)


class Scenario(_Part):
    name: str
    description: str = ""
    pools: tuple[Pool, ...] = Field(min_length=1)
    queues: tuple[Queue, ...] = ()
    jobs: tuple[JobTemplate, ...] = ()
    faults: tuple[Fault, ...] = ()
    calm: tuple[Calm, ...] = ()
    finished_jobs_stay: Seconds = 1800.0
    collective_timeout: Seconds = 600.0
    begins_at: Seconds | None = None  # of the day, UTC, for the wave of requests; that of the clock without

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Scenario:
        pools = {pool.name: pool for pool in self.pools}
        queues = {queue.name: queue for queue in self.queues}
        templates = {job.name for job in self.jobs}
        for what, names in (("pools", self.pools), ("queues", self.queues), ("jobs", self.jobs)):
            if len({one.name for one in names}) != len(names):
                raise ValueError(f"{what}: two have the same name")
        for at, queue in enumerate(self.queues):
            if queue.pool not in pools:
                raise ValueError(f"queues[{at}].pool: there is no pool {queue.pool!r}")
        for at, job in enumerate(self.jobs):
            pool = pools.get(job.pool)
            if pool is None:
                raise ValueError(f"jobs[{at}].pool: there is no pool {job.pool!r}")
            if job.queue and job.queue not in queues:
                raise ValueError(f"jobs[{at}].queue: there is no queue {job.queue!r}")
            if job.queue and job.gpus > queues[job.queue].gpus:
                raise ValueError(f"jobs[{at}].queue: {job.queue!r} has a quota of fewer GPUs than this job")
            if job.gpus > pool.gpus * pool.places_per_gpu:
                raise ValueError(f"jobs[{at}].pods: pool {pool.name!r} has fewer GPUs than this job")
            if job.gpus_per_pod > pool.gpus_per_node * pool.places_per_gpu:
                raise ValueError(f"jobs[{at}].gpus_per_pod: more than a node of pool {pool.name!r} has")
            if pool.places_per_gpu > 1 and job.gpus_per_pod > 1:
                raise ValueError(f"jobs[{at}].gpus_per_pod: pool {pool.name!r} is shared: ask for 1 place")
        for at, fault in enumerate(self.faults):
            if fault.job and fault.job not in templates:
                raise ValueError(f"faults[{at}].job: there is no job {fault.job!r}")
        for at, calm in enumerate(self.calm):
            if calm.job and calm.job not in templates:
                raise ValueError(f"calm[{at}].job: there is no job {calm.job!r}")
        return self

    @property
    def gpus(self) -> int:
        return sum(pool.gpus for pool in self.pools)

    def sized(self, gpus: int) -> Scenario:
        """The same cluster with so many GPUs: machines, quotas and arrivals in proportion, no job larger than
        half of its pool."""
        if gpus < 1:
            raise ValueError("a cluster needs at least one GPU")
        pools = _share_out(self.pools, gpus)
        by_name = {pool.name: pool for pool in pools}
        old_gpus = {pool.name: pool.gpus for pool in self.pools}
        factor = gpus / self.gpus
        jobs = tuple(_scaled(job, by_name[job.pool], factor) for job in self.jobs if job.pool in by_name)
        queues = tuple(
            queue.model_copy(update={"gpus": max(round(queue.gpus * growth), _largest(jobs, queue.name))})
            for queue in self.queues
            if queue.pool in by_name
            for growth in (by_name[queue.pool].gpus / old_gpus[queue.pool],)
        )
        names = {job.name for job in jobs}
        faults = tuple(
            fault.model_copy(update={"per_hour": fault.per_hour * factor})
            for fault in self.faults
            if not fault.job or fault.job in names
        )
        calm = tuple(one for one in self.calm if not one.job or one.job in names)
        return self.model_copy(
            update={"pools": pools, "queues": queues, "jobs": jobs, "faults": faults, "calm": calm}
        )


def _share_out(pools: tuple[Pool, ...], gpus: int) -> tuple[Pool, ...]:
    """Whole nodes by largest remainder; what does not fill one is a smaller last node of the first pool."""
    total = sum(pool.gpus for pool in pools)
    exact = [gpus * pool.gpus / total / pool.gpus_per_node for pool in pools]
    nodes = [int(share) for share in exact]
    left = gpus - sum(count * pool.gpus_per_node for count, pool in zip(nodes, pools, strict=True))
    # The first pool is what the cluster is for: it gets a node before any other.
    order = sorted(range(len(pools)), key=lambda at: (nodes[at] > 0 or at > 0, nodes[at] - exact[at], at))
    for at in order:
        if left >= pools[at].gpus_per_node:
            nodes[at] += 1
            left -= pools[at].gpus_per_node
    first = pools[0]
    nodes[0] += left // first.gpus_per_node
    rest = left % first.gpus_per_node
    sized = []
    for count, pool in zip(nodes, pools, strict=True):
        own_rest = rest if pool is first else 0
        if count + bool(own_rest):
            last = own_rest or None
            sized.append(pool.model_copy(update={"nodes": count + bool(own_rest), "last_node_gpus": last}))
    return tuple(sized)


def _largest(jobs: tuple[JobTemplate, ...], queue: str) -> int:
    """GPUs of the largest job of a queue: a smaller quota would never let it in."""
    return max((job.gpus for job in jobs if job.queue == queue), default=1)


def _scaled(job: JobTemplate, pool: Pool, factor: float) -> JobTemplate:
    places = pool.gpus * pool.places_per_gpu
    most = max(1, places // 2) if places > 1 else 1
    gpus_per_pod = min(job.gpus_per_pod, most, pool.gpus_per_node if pool.nodes > 1 else pool.gpus)
    groups = min(job.groups, max(1, most // gpus_per_pod))
    pods = min(job.pods, max(1, most // (gpus_per_pod * groups)))
    arrivals = job.arrivals.model_copy(
        update={
            "at_start": max(1, round(job.arrivals.at_start * factor)) if job.arrivals.at_start else 0,
            "per_hour": job.arrivals.per_hour * factor,
        }
    )
    return job.model_copy(
        update={"gpus_per_pod": gpus_per_pod, "groups": groups, "pods": pods, "arrivals": arrivals}
    )


def shipped_scenarios() -> tuple[str, ...]:
    folder = resources.files("trilens.simulate") / "scenarios"
    return tuple(
        sorted(one.name.removesuffix(".yaml") for one in folder.iterdir() if one.name.endswith(".yaml"))
    )


def load_scenario(name_or_path: str) -> Scenario:
    """A shipped one by its name, or a file."""
    if name_or_path in shipped_scenarios():
        folder = resources.files("trilens.simulate") / "scenarios"
        return read_scenario(
            (folder / f"{name_or_path}.yaml").read_text(encoding="utf-8"), f"{name_or_path}.yaml"
        )
    path = Path(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(
            f"cannot read the scenario {name_or_path!r}: {e}",
            hint=f"name a file, or one of {', '.join(shipped_scenarios())}",
        ) from e
    return read_scenario(text, str(path))


def read_scenario(text: str, where: str) -> Scenario:
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigError(f"{where} is no YAML: {e}") from e
    if not isinstance(tree, dict):
        raise ConfigError(f"{where} holds no scenario: a mapping with name, pools, jobs and faults is wanted")
    try:
        return Scenario.model_validate(tree)
    except ValidationError as e:
        raise ConfigError("; ".join(f"{where}: {complaint(error)}" for error in e.errors())) from e


def complaint(error: Any) -> str:
    """Where it is, and what is wrong, of one error of pydantic."""
    path = ""
    for part in error["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "there is no such key"
    return f"{path.lstrip('.')}: {message}" if path else message
