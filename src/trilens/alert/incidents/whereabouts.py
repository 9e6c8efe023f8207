"""What is where: the workloads of a node, who has a GPU, a node's rack, switch and NVLink domain."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.detect.scene import JobView, NodeView, Place, Scene
    from trilens.model.run import RunId
    from trilens.model.workload import GpuUuid, WorkloadKey


class Domain(NamedTuple):
    """Something that several nodes hang on."""

    kind: str  # rack, switch, NVLink domain
    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Whereabouts:
    """Of one moment; pods that have just gone are still in it."""

    def __init__(
        self,
        nodes: Iterable[NodeView] = (),
        jobs: Iterable[JobView] = (),
        places: Iterable[Place] = (),
    ) -> None:
        self._on_node: defaultdict[tuple[str, str], set[WorkloadKey]] = defaultdict(set)
        self._places: dict[GpuUuid, Place] = {}
        self._domains: dict[tuple[str, str], tuple[Domain, ...]] = {}
        self._clusters: defaultdict[str, set[str]] = defaultdict(set)  # in which a node's name is known
        self._named: defaultdict[tuple[str, str], set[WorkloadKey]] = defaultdict(set)
        self._pods: dict[tuple[str, str], tuple[WorkloadKey, str]] = {}
        self._runs: dict[RunId, WorkloadKey] = {}
        self._teams: dict[WorkloadKey, str] = {}
        self._steps: set[WorkloadKey] = set()
        for node in nodes:
            self._clusters[node.node].add(node.cluster)
            told = (("rack", node.rack), ("switch", node.switch), ("NVLink domain", node.nvlink_domain))
            self._domains[node.cluster, node.node] = tuple(
                Domain(kind, node.cluster, name) for kind, name in told if name
            )
        for place in places:
            if place.node:
                self._clusters[place.node].add(place.cluster)
            if place.workload is not None or place.uuid not in self._places:  # of instances, one in use
                self._places[place.uuid] = place
            if place.workload is not None:
                self._on_node[place.cluster, place.node].add(place.workload)
        for job in jobs:
            self._take(job)

    @classmethod
    def of(cls, scene: Scene) -> Whereabouts:
        return cls(scene.nodes, scene.jobs, scene.telemetry.places)

    def _take(self, job: JobView) -> None:
        workload = job.workload
        if workload is None:
            return
        self._named[workload.namespace, workload.name].add(workload)
        if not job.serves:
            self._steps.add(workload)
        if job.team:
            self._teams[workload] = job.team
        if job.run is not None:
            self._runs[job.run.run] = workload
        for pod in job.pods:
            self._pods[pod.pod.namespace, pod.pod.name] = (workload, pod.node)
            if pod.node:
                self._on_node[workload.cluster, pod.node].add(workload)
        for rank in job.ranks:
            if rank.process is not None and rank.process.node:
                self._on_node[workload.cluster, rank.process.node].add(workload)

    def on_node(self, cluster: str, node: str) -> frozenset[WorkloadKey]:
        return frozenset(self._on_node.get((cluster, node), ()))

    def place_of(self, gpu: GpuUuid) -> Place | None:
        """Where it is, and who has it."""
        return self._places.get(gpu)

    def cluster_of(self, node: str) -> str | None:
        """None where no cluster has it, or several have."""
        found = self._clusters.get(node, set())
        return next(iter(found)) if len(found) == 1 else None

    def domains(self, cluster: str, node: str) -> tuple[Domain, ...]:
        return self._domains.get((cluster, node), ())

    def workload(self, namespace: str, name: str, kind: str, cluster: str | None) -> WorkloadKey | None:
        """As labels name it: what they leave out may be anything, if one alone fits."""
        fitting = [
            one
            for one in self._named.get((namespace, name), ())
            if (not kind or one.kind == kind) and (cluster is None or one.cluster == cluster)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def of_pod(self, namespace: str, name: str) -> tuple[WorkloadKey, str] | None:
        """Its workload and node."""
        return self._pods.get((namespace, name))

    def of_run(self, run: RunId) -> WorkloadKey | None:
        return self._runs.get(run)

    def is_one_piece(self, workload: WorkloadKey) -> bool:
        """Whether all of it stands when a part does; of an inference server the other replicas go on."""
        return workload in self._steps

    def team_of(self, workload: WorkloadKey) -> str | None:
        return self._teams.get(workload)
