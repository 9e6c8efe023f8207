"""What is where: the workloads of a node, who has a GPU, a node's rack, switch and NVLink domain."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.detect.scene import JobView, NodeView, Place, PodView, Scene
    from trilens.model.run import RankProcess, RunId
    from trilens.model.workload import WorkloadKey


_REMEMBERED_MS: Final = 15 * 60_000  # who had a GPU
_JUST_ENDED_MS: Final = 60_000  # before a fault is dated, its victim may be gone: readings come every 30 s


class Domain(NamedTuple):
    """Something that several nodes hang on."""

    kind: str  # rack, switch, NVLink domain
    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Whereabouts:
    """Of one moment; pods that have just gone are still in it, and who has just lost a GPU."""

    def __init__(
        self,
        nodes: Iterable[NodeView] = (),
        jobs: Iterable[JobView] = (),
        places: Iterable[Place] = (),
        *,
        now_ms: int = 0,
        before: Whereabouts | None = None,
    ) -> None:
        """`before` is what was last known."""
        # The earliest moment that is known of each; None where nobody knows since when.
        self._on_node: defaultdict[tuple[str, str], dict[WorkloadKey, int | None]] = defaultdict(dict)
        self._places: dict[GpuUuid, Place] = {}
        self._domains: dict[tuple[str, str], tuple[Domain, ...]] = {}
        self._clusters: defaultdict[str, set[str]] = defaultdict(set)  # in which a node's name is known
        self._named: defaultdict[tuple[str, str], set[WorkloadKey]] = defaultdict(set)
        # By namespace and name, then by cluster.
        self._pods: defaultdict[tuple[str, str], dict[str, tuple[WorkloadKey, str]]] = defaultdict(dict)
        self._runs: dict[RunId, WorkloadKey] = {}
        self._teams: dict[WorkloadKey, str] = {}
        self._steps: set[WorkloadKey] = set()
        self._processes: list[tuple[WorkloadKey, RankProcess]] = []
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
                self._on_node[place.cluster, place.node].setdefault(place.workload, None)
        for job in jobs:
            self._take(job)
        held = {uuid: (now_ms, one) for uuid, one in self._places.items() if one.workload is not None}
        # Each with the last moment at which it was so.
        self._held: dict[GpuUuid, tuple[int, Place]] = self._used()
        if before is not None:
            recent = before._held.items()
            self._held |= {uuid: one for uuid, one in recent if now_ms - one[0] <= _REMEMBERED_MS}
        self._held |= held

    @classmethod
    def of(cls, scene: Scene, before: Whereabouts | None = None) -> Whereabouts:
        places = scene.telemetry.places
        return cls(scene.nodes, scene.jobs, places, now_ms=scene.now_ms, before=before)

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
            self._pods[pod.pod.namespace, pod.pod.name][pod.pod.cluster] = (workload, pod.node)
        for node, since_ms in _since(job.pods).items():
            self._on_node[workload.cluster, node][workload] = since_ms
        for rank in job.ranks:
            if rank.process is not None and rank.process.node:
                self._on_node[workload.cluster, rank.process.node].setdefault(workload, None)
            if rank.process is not None and rank.process.gpus:
                self._processes.append((workload, rank.process))

    def _used(self) -> dict[GpuUuid, tuple[int, Place]]:
        """Of GPUs that nobody holds, by what the processes said that used them."""
        found: dict[GpuUuid, tuple[int, Place]] = {}
        for workload, process in self._processes:
            until_ms = process.ended_ms if process.ended_ms is not None else process.heard_ms
            for uuid in map(GpuUuid, process.gpus):
                place = self._places.get(uuid)
                if place is not None and place.workload is None:
                    used = (until_ms, place._replace(workload=workload, rank=process.rank))
                    found[uuid] = max(found.get(uuid, used), used, key=lambda one: one[0])
        return found

    def on_node(self, cluster: str, node: str) -> Mapping[WorkloadKey, int | None]:
        """Who is there, and since when at the earliest; None where nobody knows that."""
        return self._on_node.get((cluster, node), {})

    def knows(self, cluster: str, node: str) -> bool:
        """Whether it is told who is there, and be it nobody."""
        return cluster in self._clusters.get(node, ())

    def place_of(self, gpu: GpuUuid, at_ms: int) -> Place | None:
        """Where it is, and who has it; where nobody does, who had it when something began: of a GPU that is
        lost, the pod may be gone before anybody knows."""
        place, held = self._places.get(gpu), self._held.get(gpu)
        if held is None or (place is not None and place.workload is not None):
            return place
        return held[1] if held[0] >= at_ms - _JUST_ENDED_MS else place

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

    def of_pod(self, cluster: str, namespace: str, name: str) -> tuple[WorkloadKey, str] | None:
        """Its workload and node; where no cluster is told, of the only one that has such a pod."""
        found = self._pods.get((namespace, name), {})
        if not cluster and len(found) == 1:
            return next(iter(found.values()))
        return found.get(cluster)

    def of_run(self, run: RunId) -> WorkloadKey | None:
        return self._runs.get(run)

    def is_one_piece(self, workload: WorkloadKey) -> bool:
        """Whether all of it stands when a part does; of an inference server the other replicas go on."""
        return workload in self._steps

    def team_of(self, workload: WorkloadKey) -> str | None:
        return self._teams.get(workload)


def _since(pods: Sequence[PodView]) -> dict[str, int | None]:
    """By node, when the first of them was made that went there: no earlier was the workload on it."""
    made: dict[str, int | None] = {}
    for pod in pods:
        if pod.node:
            known = made.get(pod.node, pod.created_ms)
            made[pod.node] = None if known is None or pod.created_ms is None else min(known, pod.created_ms)
    return made
