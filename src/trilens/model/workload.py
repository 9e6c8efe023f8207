"""The workload: what people call a job, over all its pods, and all that hangs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType

GpuUuid = NewType("GpuUuid", str)


class WorkloadKey(NamedTuple):
    """The top-most owner that means one job. Two with one name, one after the other, differ in their uid."""

    cluster: str
    namespace: str
    group: str
    kind: str
    name: str
    uid: str


class PodKey(NamedTuple):
    cluster: str
    namespace: str
    name: str
    uid: str


class Doubt(NamedTuple):
    """Why an answer may be wrong, and what would settle it."""

    code: str  # short and stable, for machines: "owner-gone"
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's place in a workload. A rank is not a pod's (torchrun puts eight into one): that is a GPU's."""

    pod: PodKey
    workload: WorkloadKey
    attempt: int = 0  # which life of the workload, from 0
    role: str = ""  # worker, launcher, head, leader, predictor, ...; "" where there is only one
    group: int | None = None  # of several equal groups in one workload: the LWS group, the JobSet's job
    node_rank: int | None = None  # its place among the pods of the workload's attempt
    doubts: tuple[Doubt, ...] = ()


class Step(NamedTuple):
    """One step of a pipeline run, in the words of the engine that runs it."""

    name: str
    state: str  # Pending, Running, Succeeded, Failed, Skipped, ...
    started_ms: int | None
    finished_ms: int | None
    pod: str | None  # its pod's name, where it has one


@dataclass(frozen=True, slots=True)
class Workload:
    """What is known of a workload beside its members. None is "no rule found it", never a guess."""

    key: WorkloadKey
    created_ms: int | None = None
    attempt: int = 0  # the latest life
    team: str | None = None
    cost_centre: str | None = None
    experiment: str | None = None
    queue: str | None = None
    steps: tuple[Step, ...] = ()
    doubts: tuple[Doubt, ...] = ()
