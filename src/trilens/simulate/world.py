"""A GPU cluster that does not exist, from one event to the next. Seeded, and faster than time.

    world = World(load_scenario("default").sized(64), start_ms=..., seed=1)
    world.advance(world.now_ms + 3_600_000)

What real parts would serve is asked of it: Kubernetes objects, dcgm-exporter's text of each node, /metrics of
each pod, the kernel's Xid lines. What training ranks send to a server is in `telling`, and what really is
stands in `truth`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from trilens.simulate.calm import plan_calm
from trilens.simulate.cluster import Cluster
from trilens.simulate.faults import plan_faults, strike
from trilens.simulate.faults.scene import KernelLine, Scene
from trilens.simulate.holders import gpus_on, holders_on
from trilens.simulate.jobs import JobState, PodState
from trilens.simulate.machines import build_machines
from trilens.simulate.program_output import output_of
from trilens.simulate.serving import InferenceServers
from trilens.simulate.telling import MOST_RANKS, Telling
from trilens.simulate.timeline import Timeline
from trilens.simulate.training_text import training_text
from trilens.simulate.truth import Truth
from trilens.simulate.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.simulate.holders import GpuOnNode, Holder
    from trilens.simulate.jobs import SimPod
    from trilens.simulate.machines import Machine
    from trilens.simulate.objects import ObjectTable
    from trilens.simulate.program_output import PodLines
    from trilens.simulate.scenario import Fault, JobTemplate, Scenario
    from trilens.simulate.truth import FaultTruth

_SWEEP_S = 60.0


class Silent(Exception):
    """Nobody answers there now."""


class Endpoint(NamedTuple):
    namespace: str
    pod: str
    port: int
    trains: bool


class World:
    """Not thread-safe."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        start_ms: int,
        seed: int = 0,
        telling_ranks: int = MOST_RANKS,
        identity: str = "",
    ) -> None:
        """Of training jobs as many tell of their steps as have so many ranks together. Worlds of one
        `identity` have the same runs, whenever they begin; without one each time has its own."""
        self.scenario = scenario
        self.truth = Truth()
        self._start_ms = start_ms
        self._seed = seed
        self._api = Cluster(start_ms, seed)
        self._timeline = Timeline(self._api)
        for namespace in sorted({"default", "kube-system", *(job.namespace for job in scenario.jobs)}):
            meta = {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}}
            status = {"phase": "Active"}
            self._api.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}, "status": status}
            )
        self._machines, self._bank = build_machines(scenario, self._api, seed)
        self._by_name: dict[str, Machine] = {}
        begins_ms = start_ms if scenario.begins_at is None else round(1000 * scenario.begins_at)
        self._servers = InferenceServers(begins_ms, seed)
        self._work = Work(
            scenario, self._api, self._timeline, self._machines, self._bank, self._servers, self.truth, seed
        )
        self._scene = Scene(
            scenario, self._api, self._timeline, self._machines, self._bank, self._work, self.truth
        )
        self.telling = Telling(self.truth, start_ms, telling_ranks, identity or str(start_ms))
        self._work.when_attempt_begins = self.telling.attempt_begins
        plan_faults(self._scene, seed)
        plan_calm(self._scene, seed)
        for template in scenario.jobs:
            self._plan_arrivals(template, random.Random(f"{template.name} of {seed}"))  # noqa: S311 - repeatable
        self._timeline.after(_SWEEP_S, self._sweep)

    @property
    def now_ms(self) -> int:
        return self._api.now_ms

    @property
    def objects(self) -> ObjectTable:
        return self._api.objects

    @property
    def nodes(self) -> Sequence[str]:
        return [machine.name for machine in self._machines if machine.is_there]

    def advance(self, to_ms: int) -> None:
        """Let everything happen until then. Time does not go back."""
        if to_ms < self.now_ms:
            raise ValueError(f"the world is at {self.now_ms} ms already, {to_ms} ms is over")
        self._timeline.run_until(to_ms)
        self._servers.advance(self._work.t_s)

    def strike(self, fault: Fault) -> FaultTruth | None:
        """Let it go wrong now, whenever it was planned for. None where it finds no target."""
        number = len(self.truth.faults)
        chance = random.Random(f"fault {number} that struck {self._seed}")  # noqa: S311 - repeatable
        return self.truth.faults[number] if strike(self._scene, fault, chance) else None

    def mend(self, number: int) -> bool:
        """End a fault, by its number in the truth, before its time. Whether it lasted, and can be ended."""
        return self._scene.mend(self.truth.faults[number])

    def dcgm_text(self, node: str) -> bytes:
        """Raises Silent where the exporter does not answer, KeyError where there is no such node."""
        machine = self._machine(node)
        if machine.exporter_silences or not machine.is_alive:
            raise Silent(node)
        return machine.exposition(self._bank, self._work.t_s)

    def metrics_endpoints(self) -> Mapping[str, Endpoint]:
        """By pod uid: the programs that serve /metrics now. One whose node is dead is among them."""
        return {
            uid: Endpoint(pod.namespace, pod.name, pod.job.metrics_port, pod.job.run is not None)
            for uid, pod in self._work.pods.items()
            if _serves_metrics(pod)
        }

    def metrics_text(self, pod_uid: str) -> bytes:
        """Raises Silent where it does not answer, KeyError where nothing serves."""
        pod = self._work.pods[pod_uid]
        if not _serves_metrics(pod) or pod.machine is None:
            raise KeyError(pod_uid)
        if not pod.machine.is_alive:
            raise Silent(pod_uid)
        if pod.job.run is None:
            return self._servers.text(pod_uid)
        return training_text(pod.job.name, pod.job.run, pod.ranks, self._work.t_s, self._start_ms)

    def gpus(self, node: str) -> Sequence[GpuOnNode]:
        """Raises Silent where the node is dead, KeyError where there is no such node."""
        return gpus_on(self._living(node))

    def holders(self, node: str) -> Sequence[Holder]:
        """Who was given which GPU there. Raises Silent and KeyError as `gpus` does."""
        return list(holders_on(self._living(node), self._bank))

    def output(self, node: str) -> Sequence[PodLines]:
        """What programs on its GPUs wrote lately, while their pods are there. Raises as `gpus` does."""
        self._living(node)
        return [
            output_of(pod, self._servers, self._work.t_s, self._start_ms)
            for pod in self._work.pods.values()
            if pod.on_gpus and pod.starts and pod.obj["spec"].get("nodeName") == node
        ]

    def kernel_faults(self, node: str) -> Sequence[KernelLine]:
        """The Xid lines of this node's kernel log, oldest first."""
        return tuple(self._scene.kernel.get(node, ()))

    def _living(self, node: str) -> Machine:
        machine = self._machine(node)
        if not machine.is_alive:
            raise Silent(node)
        return machine

    def _machine(self, node: str) -> Machine:
        if node not in self._by_name or self._by_name[node].name != node:
            self._by_name = {machine.name: machine for machine in self._machines if machine.is_there}
        machine = self._by_name[node]
        if not machine.is_there:
            raise KeyError(node)
        return machine

    def _plan_arrivals(self, template: JobTemplate, chance: random.Random) -> None:
        arrivals = template.arrivals
        for _ in range(arrivals.at_start):
            self._timeline.after(chance.uniform(0, 5), self._work.submit, template)
        for at in arrivals.at:
            self._timeline.after(at, self._work.submit, template)
        if arrivals.per_hour:
            self._timeline.after(chance.expovariate(arrivals.per_hour) * 3600, self._arrive, template, chance)

    def _arrive(self, template: JobTemplate, chance: random.Random) -> None:
        self._work.submit(template)
        self._timeline.after(
            chance.expovariate(template.arrivals.per_hour) * 3600, self._arrive, template, chance
        )

    def _sweep(self) -> None:
        self._api.forget_old_events()
        self._timeline.after(_SWEEP_S, self._sweep)


def _serves_metrics(pod: SimPod) -> bool:
    if pod.state is not PodState.RUNNING:
        return False
    if pod.job.template.kind.serves:
        return not pod.plan.node_rank  # of several pods of one replica, the first answers
    return pod.plan.works and pod.job.run is not None and pod.job.state is JobState.RUNNING
