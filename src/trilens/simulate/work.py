"""The jobs of a simulated cluster: they come, wait, are placed, run, fall over, begin again, and end."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from trilens.simulate import pod_life
from trilens.simulate.cluster import kube_time
from trilens.simulate.gpu_loads import GpuLoads
from trilens.simulate.jobs import JobState, PodState, SimJob, SimPod
from trilens.simulate.machines import gpu_resource
from trilens.simulate.operators import OPERATORS
from trilens.simulate.placing import Scheduler
from trilens.simulate.program_output import peer_is_gone
from trilens.simulate.queues import Queues
from trilens.simulate.training import TrainingRun
from trilens.simulate.truth import AttemptTruth, JobTruth, RankOnGpu, Seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.bank import GpuBank
    from trilens.simulate.cluster import Cluster
    from trilens.simulate.machines import Machine, Place
    from trilens.simulate.objects import KubeDict
    from trilens.simulate.operators.base import PodPlan
    from trilens.simulate.scenario import JobTemplate, Scenario
    from trilens.simulate.serving import InferenceServers
    from trilens.simulate.timeline import Timeline
    from trilens.simulate.truth import Truth

_ABORTED: Final = 134  # SIGABRT: how PyTorch's watchdog ends a rank whose peers are gone
_PULL_AGAIN_S: Final = 30.0
_ANSWERS_AGAIN_S: Final = 30.0  # a machine or a GPU that does not may come back
_ROUNDING_S: Final = 0.001  # of the timeline: the last step is over when a job ends
_GRACE_PERIOD_S: Final = 30  # that a container may take to stop
_GRACE_S: Final = 3.0  # that it takes
_TERMINATED: Final = 143  # SIGTERM


class Work:
    def __init__(
        self,
        scenario: Scenario,
        api: Cluster,
        timeline: Timeline,
        machines: list[Machine],
        bank: GpuBank,
        servers: InferenceServers,
        truth: Truth,
        seed: int,
    ) -> None:
        self._scenario = scenario
        self._api = api
        self._timeline = timeline
        self._loads = GpuLoads(bank, servers, lambda: self.t_s)
        self._servers = servers
        self._truth = truth
        self._start_ms = api.now_ms
        self._pools = {pool.name: pool for pool in scenario.pools}
        resources = {pool.name: gpu_resource(pool) for pool in scenario.pools}
        self._queues = Queues(scenario, api, resources)
        self._chance = random.Random(f"work of {seed}")  # noqa: S311 - a repeatable world, not a secret
        self._numbers: Counter[str] = Counter()
        self._holders: Counter[tuple[str, str, int | None, int | None]] = Counter()  # of each seat, so far
        self._scheduler = Scheduler(api, timeline, machines, self._bind)
        self._next_ip = 0
        self.jobs: dict[str, SimJob] = {}  # by uid, until they are removed
        self.pods: dict[str, SimPod] = {}  # by uid, while they exist
        self.unpullable: set[str] = set()  # templates whose image cannot be had
        self.when_attempt_begins: Callable[[SimJob], None] = lambda job: None
        self.when_attempt_ends: Callable[[SimJob], None] = lambda job: None

    @property
    def t_s(self) -> float:
        """Seconds since the world began."""
        return (self._api.now_ms - self._start_ms) / 1000

    # A job comes

    def submit(self, template: JobTemplate) -> SimJob:
        self._numbers[template.name] += 1
        number = self._numbers[template.name]
        labels = {"team": template.team}
        if template.experiment:
            labels["experiment"] = template.experiment
        job = SimJob(
            template=template,
            operator=OPERATORS[template.kind],
            name=f"{template.name}-{number}",
            labels=labels,
            gpu_resource=gpu_resource(self._pools[template.pool]),
            metrics_port=8000 if template.kind.serves else 9400,
            seed=self._chance.getrandbits(32),
            objects=self._api.objects,
        )
        job.top = job.operator.submit(self._api, job)
        uid = job.top["metadata"]["uid"]
        group, _, _ = job.top["apiVersion"].rpartition("/")
        job.truth = self._truth.jobs[uid] = JobTruth(
            uid, template.namespace, group, template.kind.value, job.name, template.name, template.team,
            template.queue, template.kind.trains, self._api.now_ms,
        )  # fmt: skip
        self.jobs[uid] = job
        self._draw_length(job)
        if job.queue:
            self._queues.enter(job)
            self._admit()
        else:
            self._begin(job)
        return job

    def _draw_length(self, job: SimJob) -> None:
        """How long it will be: in steps for training, in time for what somebody stops."""
        template = job.template
        if template.duration is None:
            job.total_steps = 10**12
            return
        seconds = template.duration * math.exp(self._chance.gauss(0, template.duration_spread))
        if template.kind.trains:
            spec = template.training
            step_s = spec.data_s + spec.forward_s + spec.backward_s + spec.grad_sync_s + spec.optimizer_s
            step_s += spec.checkpoint / spec.checkpoint_every
            job.total_steps = max(10, round(seconds / step_s))
        else:
            self._timeline.after(seconds, self.finish, job)

    def _admit(self) -> None:
        for job in self._queues.admit_next():
            job.operator.hold(self._api, job, held=False)
            self._timeline.after(1, self._begin, job)

    def _begin(self, job: SimJob) -> None:
        if job.state is JobState.OVER:
            return
        job.missing_pods = job.missing_pods or job.template.pods
        for plan in job.operator.begin(self._api, job):
            pod = self._seat(job, plan)
            job.pods.append(pod)
            self.pods[pod.uid] = pod
        job.missing_pods = 0
        job.begun += 1
        job.state = JobState.PLACING
        job.says_why_from_ms = 0
        self._scheduler.add(job)

    def _seat(self, job: SimJob, plan: PodPlan) -> SimPod:
        meta = plan.pod["metadata"]
        job_uid = job.top["metadata"]["uid"]
        attempt = plan.attempt
        if attempt is None:
            place = (job_uid, plan.role, plan.group, plan.node_rank)
            attempt = self._holders[place] if plan.node_rank is not None else 0
            self._holders[place] += 1
        seat = Seat(
            meta["uid"], meta["name"], meta["namespace"], job_uid, attempt, plan.role, plan.group,
            plan.node_rank, self._api.now_ms,
        )  # fmt: skip
        self._truth.seats[seat.pod_uid] = seat
        return SimPod(plan, job, plan.pod, seat, job.operator.container)

    def machines_changed(self) -> None:
        """Something may fit now that did not."""
        self._scheduler.look()

    # It has found machines

    def _bind(self, pod: SimPod, machine: Machine, places: tuple[Place, ...]) -> None:
        api, template = self._api, pod.job.template
        pod.state = PodState.STARTING
        pod.machine, pod.places = machine, places
        machine.pods[pod.uid] = pod
        taken = set(places)
        machine.free = [place for place in machine.free if place not in taken]
        machine.looks_different()
        for local_rank, place in enumerate(places):
            on_gpu = RankOnGpu(
                pod.seat.job_uid, pod.seat.attempt, pod.uid,
                pod.ranks[local_rank] if pod.ranks else None, local_rank, machine.name,
                machine.uuids[place.gpu], place.instance, place.replica, api.now_ms,
            )  # fmt: skip
            pod.on_gpus.append(on_gpu)
            self._truth.gpus.append(on_gpu)
        status = pod_life.scheduled(api.time, pod.container, template.image)
        pod.obj = api.update(pod.obj, spec={**pod.obj["spec"], "nodeName": machine.name}, status=status)
        where = f"{pod.namespace}/{pod.name}"
        api.event(
            pod.obj, "Scheduled", f"Successfully assigned {where} to {machine.name}", "default-scheduler"
        )
        self._loads.show([pod])
        self._timeline.after(1 + self._chance.random(), self._pull, pod)

    # It starts

    def _pull(self, pod: SimPod) -> None:
        if pod.state is not PodState.STARTING or pod.machine is None:
            return
        api, image, host = self._api, pod.job.template.image, pod.machine.name
        if pod.job.template.name in self.unpullable:
            message = f'Back-off pulling image "{image}": not found'
            status = pod_life.waiting(pod.obj["status"], pod.container, image, "ImagePullBackOff", message)
            pod.obj = api.update(pod.obj, status=status)
            api.event(
                pod.obj, "Failed", f'Failed to pull image "{image}": not found', "kubelet", host, warning=True
            )
            self._timeline.after(_PULL_AGAIN_S, self._pull, pod)
            return
        if image in pod.machine.images:
            message = f'Container image "{image}" already present on machine'
            api.event(pod.obj, "Pulled", message, "kubelet", host)
            seconds = 0.5
        else:
            api.event(pod.obj, "Pulling", f'Pulling image "{image}"', "kubelet", host)
            seconds = pod.job.template.pull * self._chance.uniform(0.8, 1.3)
            self._timeline.after(seconds, self._pulled, pod, seconds)
        self._timeline.after(
            seconds + pod.job.template.start * self._chance.uniform(0.8, 1.2), self._run, pod
        )

    def _pulled(self, pod: SimPod, seconds: float) -> None:
        if pod.state is PodState.STARTING and pod.machine is not None:
            image = pod.job.template.image
            pod.machine.images.add(image)
            message = f'Successfully pulled image "{image}" in {seconds:.3f}s'
            self._api.event(pod.obj, "Pulled", message, "kubelet", pod.machine.name)

    def _run(self, pod: SimPod) -> None:
        if pod.state not in (PodState.STARTING, PodState.CRASHED) or pod.machine is None:
            return
        if not pod.machine.is_alive or any(place.gpu in pod.machine.lost for place in pod.places):
            self._timeline.after(_ANSWERS_AGAIN_S, self._run, pod)
            return
        api = self._api
        if pod.state is PodState.STARTING:
            for reason in ("Created", "Started"):
                api.event(pod.obj, reason, f"{reason} container {pod.container}", "kubelet", pod.machine.name)
        pod.state = PodState.RUNNING
        pod.started_ms = api.now_ms
        pod.starts += 1
        if not pod.ip:
            self._next_ip += 1
            pod.ip = f"10.{self._next_ip >> 16 & 255}.{self._next_ip >> 8 & 255}.{self._next_ip & 255}"
        image = pod.job.template.image
        status = pod_life.running(pod.obj["status"], api.time, pod.container, image, pod.ip)
        pod.obj = api.update(pod.obj, status=status)
        if pod.job.template.kind.serves and not pod.plan.node_rank:
            self._servers.add(pod.uid, pod.job.template.serving, self.t_s)
        self._loads.show([pod])
        alive = [one for one in pod.job.pods if one.state not in (PodState.OVER, PodState.GONE)]
        if all(one.state is PodState.RUNNING for one in alive):
            self._all_run(pod.job)

    def _all_run(self, job: SimJob) -> None:
        job.state = JobState.RUNNING
        job.operator.running(self._api, job)
        if not job.template.kind.trains:
            return
        job.run = TrainingRun(
            job.template.training,
            job.ranks,
            job.saved_step,
            self.t_s,
            world_start_ms=self._start_ms,
            seed=job.seed,
            bad_batches=job.bad_batches,
        )
        working = job.working
        for pod in working:
            pod.run = job.run
        job.attempt_truth = AttemptTruth(
            job.top["metadata"]["uid"],
            working[0].seat.attempt,
            job.saved_step,
            self._api.now_ms,
            run=job.run,
        )
        self._truth.attempts.append(job.attempt_truth)
        self.when_attempt_begins(job)
        self.refresh(job)

    def refresh(self, job: SimJob) -> None:
        """Something about its run has changed: its GPUs show it, and it ends at another time."""
        self._loads.show(job.working)
        assert job.run is not None
        ends_s = job.run.time_of(job.total_steps)
        job.plan_number += 1
        if ends_s < math.inf:
            in_s = ends_s - self.t_s + _ROUNDING_S
            self._timeline.after(in_s, self._finish_as_planned, job, job.plan_number)

    # It ends

    def _finish_as_planned(self, job: SimJob, plan_number: int) -> None:
        if job.plan_number == plan_number and job.state is JobState.RUNNING:
            self.finish(job)

    def finish(self, job: SimJob) -> None:
        if job.state is JobState.OVER:
            return
        self._end_attempt(job, "done")
        for pod in list(job.pods):
            if pod.state is PodState.RUNNING and job.operator.stays_at_end(pod.plan):
                self._end(pod, "Completed", 0)
            elif pod.state is not PodState.OVER:
                self._delete(pod)
        self._over(job, succeeded=True, message="")

    def _over(self, job: SimJob, *, succeeded: bool, message: str) -> None:
        job.state = JobState.OVER
        self._scheduler.forget(job)
        assert job.truth is not None
        job.truth.to_ms = self._api.now_ms
        job.truth.outcome = "succeeded" if succeeded else "failed"
        job.operator.end(self._api, job, succeeded=succeeded, message=message)
        self._drop(job, [one for one in job.children if one["kind"] in job.operator.drops_at_end])
        if job.queue:
            self._queues.leave(job, succeeded=succeeded)
            self._admit()
        self._timeline.after(self._scenario.finished_jobs_stay, self._remove, job)
        self._scheduler.look()

    def _remove(self, job: SimJob) -> None:
        """What is left of it goes: in the background, so owners first, as `kubectl delete` has it."""
        for one in (job.top, *([job.workload] if job.workload else ()), *job.lasting, *job.children):
            self._api.delete(one)
        for pod in list(job.pods):
            self._delete(pod)
        del self.jobs[job.top["metadata"]["uid"]]

    def _end_attempt(self, job: SimJob, by: str) -> None:
        if job.run is None:
            return
        job.run.stop(self.t_s)
        job.saved_step = job.run.saved_step(self.t_s)
        if job.attempt_truth is not None:
            job.attempt_truth.to_ms = self._api.now_ms
            job.attempt_truth.last_step = math.floor(job.run.step_at(self.t_s))
            job.attempt_truth.ended_by = by
        self.when_attempt_ends(job)
        job.run = None

    # It falls over

    def fail(
        self, pod: SimPod, reason: str, exit_code: int, by: str, last_words: tuple[str, ...] = ()
    ) -> None:
        """A pod's container ends, and what follows from that."""
        job = pod.job
        if pod.state is not PodState.RUNNING:
            return
        if job.operator.restarts_containers:
            self._crash(pod, reason, exit_code, last_words)
            return
        self._end_attempt(job, by)
        self._end(pod, reason, exit_code, last_words)
        self._fall(job, f"pod {pod.name} failed: {reason} (exit code {exit_code})")

    def lose(self, machine: Machine, reason: str, message: str, by: str) -> None:
        """Everything on a machine is sent away."""
        for pod in list(machine.pods.values()):
            job = pod.job
            if pod.state in (PodState.OVER, PodState.GONE):
                continue
            self._end_attempt(job, by)
            pod.obj = self._api.update(
                pod.obj, status=pod_life.disrupted(pod.obj["status"], self._api.time, reason, message)
            )
            if reason == "DeletionByTaintManager":
                said = f"Marking for deletion Pod {pod.namespace}/{pod.name}"
                self._api.event(pod.obj, "TaintManagerEviction", said, "taint-eviction-controller")
            self._delete(pod)
            if job.state is JobState.OVER:
                continue
            if job.operator.replaces_single_pods:
                job.missing_pods += 1
                self._timeline.after(4, self._make_up, job)
            else:
                self._fall(job, f"pod {pod.name} was lost with its node")

    def scale(self, job: SimJob, by: int) -> None:
        """A service gets so many pods more, or fewer."""
        if by > 0:
            job.missing_pods += by
            self._make_up(job)
            return
        for pod in [pod for pod in job.pods if pod.state is PodState.RUNNING][by:]:
            self._delete(pod)

    def show_ready(self, machine: Machine, *, ready: bool) -> None:
        """What the node controller writes on the pods of a node that is silent, and the kubelet after."""
        for pod in machine.pods.values():
            if pod.state is PodState.RUNNING:
                status = pod_life.readiness(pod.obj["status"], self._api.time, ready=ready)
                pod.obj = self._api.update(pod.obj, status=status)

    def suspend(self, job: SimJob) -> None:
        """Its queue takes its quota back."""
        self._end_attempt(job, "preemption")
        job.state = JobState.QUEUED
        self._scheduler.forget(job)
        self._queues.evict(job)
        job.operator.hold(self._api, job, held=True)
        self._clear(job, keep_children=job.operator.keeps_children_when_held)

    def resume(self, job: SimJob) -> None:
        if job.state is JobState.QUEUED:
            self._queues.enter_again(job)
            self._admit()

    def _make_up(self, job: SimJob) -> None:
        """A service has fewer pods than it should."""
        if job.missing_pods and job.state is not JobState.OVER:
            self._begin(job)

    def _fall(self, job: SimJob, message: str) -> None:
        """One pod is gone, so the others stop too, one after the other."""
        if job.state in (JobState.BETWEEN, JobState.OVER):
            return
        job.state = JobState.BETWEEN
        job.failures += 1
        self._scheduler.forget(job)
        for pod in job.pods:
            if pod.state is PodState.RUNNING:
                words = peer_is_gone(pod.plan.first_rank)
                self._timeline.after(self._chance.uniform(2, 9), self._end, pod, "Error", _ABORTED, words)
        self._timeline.after(15, self._next_attempt, job, message)

    def _next_attempt(self, job: SimJob, message: str) -> None:
        if job.state is not JobState.BETWEEN:
            return
        operator = job.operator
        if not job.template.kind.trains or (operator.can_retry and job.failures <= job.template.retries):
            operator.restarting(self._api, job, message)
            self._clear(job, keep_children=False)
            self._timeline.after(8, self._begin_again, job)
        else:
            for pod in job.pods:
                if pod.state not in (PodState.OVER, PodState.GONE):
                    self._delete(pod)
            self._over(job, succeeded=False, message=message)

    def _begin_again(self, job: SimJob) -> None:
        if job.state is JobState.BETWEEN:
            self._begin(job)

    def _clear(self, job: SimJob, *, keep_children: bool) -> None:
        if not keep_children:
            self._drop(job, job.children)
            job.children = []
        for pod in list(job.pods):
            if pod.state is not PodState.OVER or not job.operator.keeps_failed_pods:
                self._delete(pod)

    def _drop(self, job: SimJob, children: list[KubeDict]) -> None:
        """Most are gone before what they own."""
        for one in children:
            if job.operator.drops_in_foreground:
                self._timeline.after(_GRACE_S + 1, self._api.delete, one)
            else:
                self._api.delete(one)

    def _crash(self, pod: SimPod, reason: str, exit_code: int, last_words: tuple[str, ...]) -> None:
        assert pod.machine is not None
        pod.state = PodState.CRASHED
        pod.last_words = last_words
        self._servers.remove(pod.uid, self.t_s)
        status = pod_life.crashed(pod.obj["status"], self._api.time, reason, exit_code)
        pod.obj = self._api.update(pod.obj, status=status)
        message = f"Back-off restarting failed container {pod.container} in pod {pod.name}"
        self._api.event(pod.obj, "BackOff", message, "kubelet", pod.machine.name, warning=True)
        self._loads.show([pod])
        self._timeline.after(10 + pod.job.template.start, self._run, pod)

    # A pod's end

    def _end(self, pod: SimPod, reason: str, exit_code: int, last_words: tuple[str, ...] = ()) -> None:
        if pod.state is not PodState.RUNNING:
            return
        pod.last_words = last_words
        pod.obj = self._api.update(
            pod.obj, status=pod_life.ended(pod.obj["status"], self._api.time, reason, exit_code)
        )
        pod.state = PodState.OVER
        self._release(pod)

    def _delete(self, pod: SimPod) -> None:
        """What still runs is given a moment."""
        if pod.state is PodState.GONE or "deletionTimestamp" in pod.obj["metadata"]:
            return
        if pod.state in (PodState.OVER, PodState.WAITING):
            self._gone(pod)
            return
        # The time by which it has to be gone is what Kubernetes writes down.
        by_ms = self._api.now_ms + 1000 * _GRACE_PERIOD_S
        deleted = {"deletionTimestamp": kube_time(by_ms), "deletionGracePeriodSeconds": _GRACE_PERIOD_S}
        pod.obj = self._api.update_meta(pod.obj, **deleted)
        self._timeline.after(_GRACE_S, self._gone, pod)

    def _gone(self, pod: SimPod) -> None:
        if pod.state is PodState.GONE:
            return
        if pod.state is PodState.RUNNING and pod.machine is not None and pod.machine.is_alive:
            # The kubelet brings it to its end before it lets it go.
            status = pod_life.ended(pod.obj["status"], self._api.time, "Error", _TERMINATED)
            pod.obj = self._api.update(pod.obj, status=status)
        pod.state = PodState.GONE
        self._release(pod)
        self._api.delete(pod.obj)
        del self.pods[pod.uid]
        pod.job.pods.remove(pod)
        self._scheduler.look()

    def _release(self, pod: SimPod) -> None:
        self._servers.remove(pod.uid, self.t_s)
        if pod.seat.to_ms is None:
            pod.seat.to_ms = self._api.now_ms
        machine = pod.machine
        if machine is None:
            return
        for on_gpu in pod.on_gpus:
            on_gpu.to_ms = self._api.now_ms
        places, pod.places, pod.machine = pod.places, (), None
        machine.pods.pop(pod.uid, None)
        machine.free = sorted((*machine.free, *places))
        machine.looks_different()
        self._loads.show_units(machine, {place.unit for place in places})
