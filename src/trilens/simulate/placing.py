"""The scheduler of a simulated cluster: all pods of a job find machines at once, or none does."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.simulate import pod_life
from trilens.simulate.jobs import JobState, PodState
from trilens.simulate.machines import why_it_does_not_fit, why_it_is_not_tolerated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob, SimPod
    from trilens.simulate.machines import Machine, Place
    from trilens.simulate.timeline import Timeline

_LOOKS_EVERY_S: Final = 0.5
_SAYS_WHY_EVERY_MS: Final = 300_000


class _Offer(NamedTuple):
    """What a machine has to give, or is asked for."""

    machine: Machine
    places: tuple[Place, ...]


class Scheduler:
    def __init__(
        self,
        api: Cluster,
        timeline: Timeline,
        machines: list[Machine],
        bind: Callable[[SimPod, Machine, tuple[Place, ...]], None],
    ) -> None:
        self._api = api
        self._timeline = timeline
        self._machines = machines
        self._bind = bind
        self._by_pool: defaultdict[str, list[Machine]] = defaultdict(list)
        for machine in machines:
            self._by_pool[machine.pool.name].append(machine)
        self._waiting: list[SimJob] = []
        self._will_look = False

    def add(self, job: SimJob) -> None:
        if job not in self._waiting:
            self._waiting.append(job)
        self.look()

    def forget(self, job: SimJob) -> None:
        if job in self._waiting:
            self._waiting.remove(job)

    def look(self) -> None:
        """For machines, soon: what changes at about the same time is looked at together."""
        if self._waiting and not self._will_look:
            self._will_look = True
            self._timeline.after(_LOOKS_EVERY_S, self._look_now)

    def _look_now(self) -> None:
        """Whatever fits now. A small job may pass a large one that waits."""
        self._will_look = False
        room: dict[tuple[str, int], list[_Offer]] = {}  # by pool and size: the same for many that wait
        for job in list(self._waiting):
            wants = [pod for pod in job.pods if pod.state is PodState.WAITING]
            if not job.template.tolerates_gpu_nodes:
                self._say_why(job, wants)
                continue
            key = (job.template.pool, job.template.gpus_per_pod)
            if key not in room:
                room[key] = self._offers(*key)
            found = _choose(room[key], sum(pod.plan.works for pod in wants), job.template.gpus_per_pod)
            if found is None:
                self._say_why(job, wants)
                continue
            self._waiting.remove(job)
            job.state = JobState.STARTING
            assigned = iter(found)
            home = found[0].machine if found else self._any_machine(job)
            for pod in wants:
                machine, places = next(assigned) if pod.plan.works else _Offer(home, ())
                self._bind(pod, machine, places)
            touched = {offer.machine: None for offer in found}
            for pool, needed in room:
                if pool == job.template.pool:
                    room[pool, needed] = _without(room[pool, needed], touched, needed)

    def _offers(self, pool: str, needed: int) -> list[_Offer]:
        """What is partly used comes first, so that whole machines stay whole."""
        found = [
            _Offer(machine, tuple(spare))
            for machine in self._by_pool[pool]
            if machine.is_open and len(spare := machine.offers()) >= needed
        ]
        return sorted(found, key=lambda offer: (len(offer.places), offer.machine.number))

    def _any_machine(self, job: SimJob) -> Machine:
        own = self._by_pool[job.template.pool]
        return next((machine for machine in own if machine.is_open), own[0])

    def _say_why(self, job: SimJob, pods: list[SimPod]) -> None:
        if self._api.now_ms < job.says_why_from_ms:
            return
        job.says_why_from_ms = self._api.now_ms + _SAYS_WHY_EVERY_MS
        needed = job.template.gpus_per_pod
        if job.template.tolerates_gpu_nodes:
            message = why_it_does_not_fit(self._machines, job.template.pool, job.gpu_resource, needed)
        else:
            message = why_it_is_not_tolerated(self._machines, job.template.pool)
        for pod in pods:
            status = pod_life.unschedulable(pod.obj["status"], self._api.time, message)
            pod.obj = self._api.update(pod.obj, status=status)
            self._api.event(pod.obj, "FailedScheduling", message, "default-scheduler", warning=True)


def _without(offers: list[_Offer], touched: Mapping[Machine, None], needed: int) -> list[_Offer]:
    """The same offers after some machines gave something away: these are partly used now, so come first."""
    again = [_Offer(machine, tuple(machine.offers())) for machine in touched]
    still = [offer for offer in again if len(offer.places) >= needed]
    return still + [offer for offer in offers if offer.machine not in touched]


def _choose(offers: list[_Offer], pods: int, needed: int) -> list[_Offer] | None:
    """Places for so many pods; None where not all of them fit."""
    if sum(len(offer.places) // needed for offer in offers) < pods:
        return None
    found: list[_Offer] = []
    for machine, spare in offers:
        if len(found) == pods:
            break
        spread = sorted(spare, key=lambda place: (place.replica or 0, place.gpu, place.unit))
        while len(spread) >= needed and len(found) < pods:
            found.append(_Offer(machine, tuple(spread[:needed])))
            del spread[:needed]
    return found
