"""Ranks of a torchrun in a pod: from NVML's processes and their environment to the commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from machine import Node
from proc_tree import POD_CGROUP, POD_UID, TORCHRUN

from kubernetes_client import NODES, PODS
from servers import until
from trilens.collect.node.agent import NodeAgent
from trilens.collect.node.endpoint import Endpoint
from trilens_process import server, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer

pytestmark = pytest.mark.whole

RANKS = (2, 3)  # of four: the pod is the second of its job
UUIDS = ("GPU-of-rank-2", "GPU-of-rank-3")


@pytest.fixture
def node(kubernetes: KubernetesServer, namespace: str) -> Iterator[str]:
    admin = kubernetes.client()
    name = f"ranks-{namespace}"
    admin.create(NODES, {"metadata": {"name": name}})
    yield name
    admin.delete(NODES, name)


@pytest.fixture
def pod_uid(kubernetes: KubernetesServer, namespace: str, node: str) -> str:
    admin = kubernetes.client()
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    pod = {"metadata": {"name": "train"}, "spec": {"containers": [container], "nodeName": node}}
    made = admin.create(PODS, pod, namespace)
    admin.patch_status(PODS, "train", {"phase": "Running"}, namespace)
    return str(made["metadata"]["uid"])


@pytest.fixture
def agent(tmp_path: Path, namespace: str, node: str, pod_uid: str) -> Iterator[Endpoint]:
    """On the host it sees the processes by the host's numbers, and the pod by their control group."""
    (tmp_path / "machine").mkdir()
    machine = Node(tmp_path / "machine")
    cgroup = POD_CGROUP.replace(POD_UID.replace("-", "_"), pod_uid.replace("-", "_"))
    for local_rank, rank in enumerate(RANKS):
        environment = {**TORCHRUN, "RANK": str(rank), "LOCAL_RANK": str(local_rank), "WORLD_SIZE": "4"}
        machine.proc.add(800 + rank, environment=environment, cgroup=cgroup)
    [gpu] = machine.nvml.recorded["gpus"]
    machine.nvml.recorded["gpus"] = [
        {
            **gpu,
            "identity": {
                **gpu["identity"],
                "number": number,
                "uuid": UUIDS[number],
                "pci": f"00000000:0{number}:06.0",
            },
            "processes": [{"pid": 800 + rank, "memory_bytes": 1 << 30, "gpu_instance": None}],
        }
        for number, rank in enumerate(RANKS)
    ]
    (machine.folder / "log" / f"{namespace}_train_{pod_uid}").mkdir()
    settings = machine.settings(interval="50ms")
    agent = NodeAgent(settings, node, lambda: machine.nvml, lambda: machine.kernel_log)
    endpoint = Endpoint(agent, settings)
    agent.start()
    endpoint.start()
    yield endpoint
    endpoint.stop()
    agent.stop()


def test_ranks_in_a_pod_are_told_to_the_end(
    kubernetes: KubernetesServer, namespace: str, node: str, agent: Endpoint, tmp_path: Path
) -> None:
    address = agent.url.removeprefix("http://")
    settings = {
        "kubernetes": {
            "clusters": {"lab": {"kubeconfig": str(kubernetes.kubeconfig()), "namespaces": [namespace]}}
        },
        "agents": {
            "scrape_config": {"static_configs": [{"targets": [address]}], "scrape_interval": "1s"},
            "interval": "100ms",
        },
    }
    config = tmp_path / "trilens.yaml"
    config.write_text(json.dumps(settings), encoding="utf-8")
    with server(tmp_path, "--config", str(config)) as (url, _):

        def holders() -> list[tuple[Any, ...]]:
            gpus = httpx.get(f"{url}/api/gpus", params={"node": node}).json()["data"]
            return sorted(
                (gpu["uuid"], one["workload"], one["pod"], one["rank"], one["share"])
                for gpu in gpus
                for one in gpu["holders"]
            )

        def series(query: str) -> list[dict[str, str]]:
            answer = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()
            return [one["metric"] for one in answer["data"]["result"]]

        until(lambda: len(holders()) == len(RANKS), "its ranks do not hold the GPU")
        assert holders() == [
            (uuid, "train", "train", rank, "1") for uuid, rank in zip(UUIDS, RANKS, strict=True)
        ]
        told = [(one["UUID"], one["pod"], one["rank"]) for one in series("trilens_gpu_process_memory_bytes")]
        assert sorted(told) == [(UUIDS[0], "train", "2"), (UUIDS[1], "train", "3")]
        infos = [
            (one["UUID"], one["workload"], one["rank"], one["local_rank"])
            for one in series("trilens_workload_gpu_info")
        ]
        assert sorted(infos) == [(UUIDS[0], "train", "2", "0"), (UUIDS[1], "train", "3", "1")]
        [shown] = json.loads(trilens("show", "train", "--json", "--server", url).stdout)
        assert [(one["rank"], one["node"], one["sources"]) for one in shown["gpus"]] == [
            (rank, node, ["process"]) for rank in RANKS
        ]
        # What is in a pod is no workload of its own beside the pod's.
        assert [one["name"] for one in httpx.get(f"{url}/api/workloads").json()["data"]] == ["train"]
