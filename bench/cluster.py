"""Trilens watching a cluster of 10,000 GPUs: first sync, the cost of following it, how soon a change is seen.

The cluster is simulated in this process; Trilens has one of its own, and only that is measured.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from bench.peers import Trilens
from trilens.simulate.cluster import kube_time
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.peers import Usage
    from trilens.simulate.world import World

_SCENARIO: Final = Path(__file__).with_name("cluster.yaml")
_AGE_MS: Final = 600_000  # by then all jobs of the start run
_PATIENCE_S: Final = 120.0
_PROBE: Final = "bench-probe"  # a namespace with one pod, so that asking for it costs little
NODE_BEATS: Final = 4.0  # a second: each of 1,250 kubelets reports every five minutes
POD_CHANGES: Final = 4.0  # a second: pods that live four hours change their status about eight times
EVENTS_MADE: Final = 3.0  # a second; what the world itself does comes on top


@dataclass(frozen=True)
class ClusterResult:
    gpus: int
    nodes: int
    pods: int
    ready_s: float  # from the start of the process until it answers
    ready: Usage  # then: the engine, mostly
    sync_s: float  # from the start of the process until all is in its answers
    sync_cpu_s: float
    first_cores: float  # used while following, as long after the sync as it is then followed once more
    changes_a_second: float
    cores: float  # used while following those
    end: Usage
    peak_mb: float
    seen_s: tuple[float, ...]  # from a pod's change to its being answered, sorted


@dataclass
class WatchingTrilens(Trilens):
    kubeconfig: Path = field(default_factory=Path)

    def scrape_document(self) -> dict[str, object]:
        return {"kubernetes": {"clusters": {"bench": {"kubeconfig": str(self.kubeconfig)}}}}

    def peak_mb(self) -> float:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def run(out: Path, *, gpus: int, seconds: float, probes: int) -> ClusterResult:
    scenario = load_scenario(str(_SCENARIO)).sized(gpus)
    world = grown(scenario, now_ms=time.time_ns() // 1_000_000, age_ms=_AGE_MS)
    with SimulatedCluster(world) as cluster:
        kubeconfig = out / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        nodes, pods = cluster.ask(lambda w: (len(w.nodes), len(_pods(w))))
        trilens = WatchingTrilens(out / "kubernetes-trilens", kubeconfig=kubeconfig)
        began = time.perf_counter()
        try:
            trilens.start()
            ready = trilens.usage()
            with httpx.Client(base_url=trilens.url, timeout=30) as client:
                # Each question costs Trilens a query, of the time that it needs for the cluster.
                _wait(lambda: _is_read_through(client), "the cluster was not read through", every_s=0.2)
                sync_s, synced = time.perf_counter() - began, trilens.usage()
                # What happens once, such as making the series of kube-state-metrics, is told apart.
                _, _, first_cores = _follow(cluster, trilens, seconds)
                changes, took, cores = _follow(cluster, trilens, seconds)
                seen = sorted(_seen_after_s(cluster, client, probe) for probe in range(probes))
            return ClusterResult(
                gpus=gpus,
                nodes=nodes,
                pods=pods,
                ready_s=trilens.ready_after_s,
                ready=ready,
                sync_s=sync_s,
                sync_cpu_s=synced.cpu_s,
                first_cores=first_cores,
                changes_a_second=changes / took,
                cores=cores,
                end=trilens.usage(),
                peak_mb=trilens.peak_mb(),
                seen_s=tuple(seen),
            )
        finally:
            trilens.stop()


def _follow(cluster: SimulatedCluster, trilens: WatchingTrilens, seconds: float) -> tuple[int, float, float]:
    """Changes seen, the seconds they took, and the cores used meanwhile."""
    before, version = trilens.usage(), cluster.ask(lambda world: world.objects.resource_version)
    chance = random.Random(7)
    planned = sorted(
        (i / rate, change)
        for rate, change in ((NODE_BEATS, 0), (POD_CHANGES, 1), (EVENTS_MADE, 2))
        for i in range(round(rate * seconds))
    )
    changes: tuple[Callable[[World, random.Random], None], ...] = (_beat, _change_pod, _tell)
    began = time.perf_counter()
    for at, change in planned:
        time.sleep(max(0.0, began + at - time.perf_counter()))
        make = changes[change]
        cluster.ask(lambda world, make=make: make(world, chance))  # type: ignore[misc]
    took = time.perf_counter() - began
    after = trilens.usage()
    made = cluster.ask(lambda world: world.objects.resource_version) - version
    return made, took, (after.cpu_s - before.cpu_s) / took


def _beat(world: World, chance: random.Random) -> None:
    node = world.objects.get("", "nodes", "", chance.choice(world.nodes))
    assert node is not None
    conditions = [
        {**one, "lastHeartbeatTime": kube_time(world.now_ms)} for one in node["status"]["conditions"]
    ]
    world.objects.put({**node, "status": {**node["status"], "conditions": conditions}})


def _change_pod(world: World, chance: random.Random) -> None:
    """Its readiness flickers, as seen from the kubelet."""
    pod = chance.choice(_pods(world))
    status = pod.get("status", {})
    world.objects.put({**pod, "status": {**status, "message": f"seen at {kube_time(world.now_ms)}"}})


def _tell(world: World, chance: random.Random) -> None:
    pod = chance.choice(_pods(world))
    meta = pod["metadata"]
    about = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    name = f"{meta['name']}.{chance.getrandbits(64):016x}"
    world.objects.put(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "uid": name,
                "creationTimestamp": kube_time(world.now_ms),
            },
            "involvedObject": about,
            "reason": "Pulled",
            "message": "Container image is present on the machine",
            "type": "Normal",
            "lastTimestamp": kube_time(world.now_ms),
        }
    )


def _seen_after_s(cluster: SimulatedCluster, client: httpx.Client, probe: int) -> float:
    """How long until a pod that was just made is a workload in the answers."""
    name = f"probe-{probe}"
    cluster.ask(lambda world: world.objects.put(_probe(world, name)))
    began = time.perf_counter()
    _wait(lambda: name in _names(client), f"{name} is not seen")
    return time.perf_counter() - began


def _probe(world: World, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": _PROBE,
            "uid": name,
            "creationTimestamp": kube_time(world.now_ms),
        },
        "spec": {"containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": "Pending"},
    }


def _names(client: httpx.Client) -> set[str]:
    found = client.get("/api/workloads", params={"namespace": _PROBE}).json()["data"]
    return {one["name"] for one in found}


def _is_read_through(client: httpx.Client) -> bool:
    answer = client.get("/api/workloads", params={"namespace": _PROBE}).json()
    return not answer.get("warnings")


def _pods(world: World) -> list[dict[str, Any]]:
    return [*world.objects.list("", "v1", "pods")]


def _wait(condition: Callable[[], bool], otherwise: str, every_s: float = 0.02) -> None:
    ends = time.perf_counter() + _PATIENCE_S
    while not condition():
        if time.perf_counter() > ends:
            raise RuntimeError(otherwise)
        time.sleep(every_s)
