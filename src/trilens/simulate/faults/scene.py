"""Where faults strike: their targets, and the truth about them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.simulate.hardware import mig_share
from trilens.simulate.jobs import JobState, SimJob
from trilens.simulate.truth import FaultTruth, NodeTruth

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from trilens.simulate.bank import GpuBank
    from trilens.simulate.cluster import Cluster
    from trilens.simulate.holders import Holder
    from trilens.simulate.jobs import SimPod
    from trilens.simulate.machines import Machine
    from trilens.simulate.scenario import Fault, FaultKind, Scenario
    from trilens.simulate.timeline import Timeline
    from trilens.simulate.truth import Truth
    from trilens.simulate.work import Work


class KernelLine(NamedTuple):
    at_ms: int
    text: str
    holder: Holder | None  # of the GPU it is about, then


class Target(NamedTuple):
    """A GPU, and who is on it."""

    machine: Machine
    gpu: int
    pod: SimPod | None
    rank: int | None


class Scene:
    def __init__(
        self,
        scenario: Scenario,
        api: Cluster,
        timeline: Timeline,
        machines: list[Machine],
        bank: GpuBank,
        work: Work,
        truth: Truth,
    ) -> None:
        self.scenario = scenario
        self.api = api
        self.timeline = timeline
        self.machines = machines
        self.bank = bank
        self.work = work
        self.truth = truth
        for machine in machines:
            self.came(machine)
        self.kernel: defaultdict[str, list[KernelLine]] = defaultdict(list)  # by node
        self.on_attempt: defaultdict[SimJob, list[FaultTruth]] = defaultdict(
            list
        )  # end with it, at the latest
        self._mends: dict[int, Callable[[], None]] = {}  # by the identity of the truth about a fault
        work.when_attempt_ends = self._attempt_ended

    # Targets

    def running_jobs(self, fault: Fault) -> list[SimJob]:
        return [
            job
            for job in self.work.jobs.values()
            if job.state is JobState.RUNNING and (not fault.job or job.template.name == fault.job)
        ]

    def training(self, fault: Fault, chance: Random, ranks: int = 1) -> SimJob | None:
        """One with at least so many ranks that is not in such trouble yet."""
        found = [
            job
            for job in self.running_jobs(fault)
            if job.run is not None and job.ranks >= ranks and job.run.trouble.hung_by is None
        ]
        return chance.choice(found) if found else None

    def rank(self, fault: Fault, job: SimJob, chance: Random) -> int:
        return chance.randrange(job.ranks) if fault.rank is None else fault.rank % job.ranks

    def gpu(self, fault: Fault, chance: Random) -> Target | None:
        if fault.job or fault.rank is not None:
            job = self.training(fault, chance)
            return None if job is None else self.gpu_of(job, self.rank(fault, job, chance))
        machine = self.machine(fault, chance)
        if machine is None:
            return None
        gpu = chance.randrange(machine.gpu_count) if fault.gpu is None else fault.gpu % machine.gpu_count
        if gpu in machine.broken:
            return None
        for pod in machine.pods.values():
            for at, place in enumerate(pod.places):
                if place.gpu == gpu:
                    return Target(machine, gpu, pod, pod.ranks[at] if pod.ranks else None)
        return Target(machine, gpu, None, None)

    def gpu_of(self, job: SimJob, rank: int) -> Target:
        pod = next(pod for pod in job.working if rank in pod.ranks)
        assert pod.machine is not None
        return Target(pod.machine, pod.places[pod.ranks.index(rank)].gpu, pod, rank)

    def machine(self, fault: Fault, chance: Random, *, spot: bool = False) -> Machine | None:
        if fault.node is not None:
            machine = self.machines[fault.node % len(self.machines)]
            return machine if machine.is_open else None
        found = [one for one in self.machines if one.is_open and (one.pool.spot or not spot)]
        return chance.choice(found) if found else None

    # The truth

    def tell(
        self, kind: FaultKind, *, target: Target | None = None, job: SimJob | None = None,
        rank: int | None = None, machine: Machine | None = None, detail: str = "",
    ) -> FaultTruth:  # fmt: skip
        if target is not None:
            machine, rank = target.machine, target.rank
            job = target.pod.job if target.pod is not None else None
        uuid = machine.uuids[target.gpu] if target is not None and machine is not None else ""
        told = FaultTruth(
            kind.value,
            self.api.now_ms,
            node=machine.name if machine is not None else "",
            gpu_uuid=uuid,
            job_uid=job.top["metadata"]["uid"] if job is not None else "",
            attempt=job.attempt_truth.attempt if job is not None and job.attempt_truth is not None else None,
            rank=rank,
            detail=detail,
        )
        self.truth.faults.append(told)
        return told

    def came(self, machine: Machine) -> None:
        share = mig_share(machine.pool.mig)
        node = NodeTruth(machine.name, tuple(machine.uuids), share, self.api.now_ms)
        self.truth.nodes.append(node)

    def went(self, machine: Machine) -> None:
        node = next(one for one in self.truth.nodes if one.name == machine.name)
        node.to_ms = self.api.now_ms

    def lasts(self, told: FaultTruth, seconds: float, mend: Callable[[], None]) -> None:
        """So long, unless somebody ends it before."""
        self._mends[id(told)] = mend
        self.timeline.after(seconds, self.mend, told)

    def mend(self, told: FaultTruth) -> bool:
        """Whether it was there to be mended."""
        mend = self._mends.pop(id(told), None)
        if mend is not None:
            mend()
        return mend is not None

    def over(self, told: FaultTruth) -> None:
        if told.to_ms is None:
            told.to_ms = self.api.now_ms

    def _attempt_ended(self, job: SimJob) -> None:
        for told in self.on_attempt.pop(job, ()):
            self.over(told)
