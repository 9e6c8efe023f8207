"""Jobs and pods of a simulated cluster while they live."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trilens.simulate.machines import Machine, Place
    from trilens.simulate.objects import KubeDict, ObjectTable
    from trilens.simulate.operators.base import Operator, PodPlan
    from trilens.simulate.scenario import JobTemplate
    from trilens.simulate.training import BadBatch, TrainingRun
    from trilens.simulate.truth import AttemptTruth, JobTruth, RankOnGpu, Seat

_FIRST_PID: Final = 2000


class PodState(Enum):
    WAITING = auto()  # for a machine
    STARTING = auto()
    RUNNING = auto()
    CRASHED = auto()  # its container will start again
    OVER = auto()
    GONE = auto()


class JobState(Enum):
    QUEUED = auto()
    PLACING = auto()  # its pods are made and look for machines
    STARTING = auto()
    RUNNING = auto()
    BETWEEN = auto()  # two attempts
    OVER = auto()


@dataclass(eq=False)
class SimPod:
    plan: PodPlan
    job: SimJob
    obj: KubeDict
    seat: Seat
    container: str
    state: PodState = PodState.WAITING
    machine: Machine | None = None
    places: tuple[Place, ...] = ()
    ip: str = ""
    on_gpus: list[RankOnGpu] = field(default_factory=list)
    started_ms: int = 0  # its container, the last time
    starts: int = 0
    run: TrainingRun | None = None  # that its ranks take part in, or did
    last_words: tuple[str, ...] = ()  # of its container, as it ended

    @property
    def uid(self) -> str:
        return self.seat.pod_uid

    @property
    def name(self) -> str:
        return self.seat.pod

    @property
    def namespace(self) -> str:
        return self.seat.namespace

    def pid(self, local_rank: int) -> int:
        """Of the process that computes on this one of its GPUs."""
        return _FIRST_PID + zlib.crc32(f"{self.uid}/{self.starts}/{local_rank}".encode()) % 4_000_000

    @property
    def ranks(self) -> range:
        first = self.plan.first_rank
        return range(0) if first is None else range(first, first + self.job.template.gpus_per_pod)


@dataclass(eq=False)
class SimJob:
    template: JobTemplate
    operator: Operator
    name: str
    labels: dict[str, str]
    gpu_resource: str
    metrics_port: int
    seed: int
    objects: ObjectTable
    total_steps: int = 0  # of a training job
    top: KubeDict = field(default_factory=dict)
    workload: KubeDict | None = None  # Kueue's
    truth: JobTruth | None = None
    state: JobState = JobState.QUEUED
    children: list[KubeDict] = field(default_factory=list)  # of this attempt, between the job and its pods
    lasting: list[KubeDict] = field(default_factory=list)  # between them too, for all attempts
    pods: list[SimPod] = field(default_factory=list)
    missing_pods: int = 0  # that a service makes when it begins
    begun: int = 0  # how many attempts came before this one
    failures: int = 0
    saved_step: int = 0
    tells: bool | None = None  # of its steps, to a server; None before its first attempt
    bad_batches: dict[int, BadBatch] = field(default_factory=dict)  # by step
    run: TrainingRun | None = None
    attempt_truth: AttemptTruth | None = None
    says_why_from_ms: int = 0  # it is not admitted or placed: not before, so as not to repeat itself
    plan_number: int = 0  # of the finish that is planned: an older one is void

    @property
    def queue(self) -> str:
        return self.template.queue

    @property
    def queue_labels(self) -> dict[str, str]:
        return {"kueue.x-k8s.io/queue-name": self.queue} if self.queue else {}

    @property
    def current_top(self) -> KubeDict:
        return self.objects.current(self.top) or self.top

    @property
    def ranks(self) -> int:
        return self.template.pods * self.template.gpus_per_pod

    @property
    def working(self) -> list[SimPod]:
        """Its pods that have, or want, GPUs and are not over."""
        return [
            pod for pod in self.pods if pod.plan.works and pod.state not in (PodState.OVER, PodState.GONE)
        ]
