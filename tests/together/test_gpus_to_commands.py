"""From dcgm-exporter's text, the agent's, and a real API server's pods to `trilens gpus`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from http_target import HttpTarget
from kubernetes_client import NODES, PODS
from servers import until
from trilens_process import server, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer

MODEL = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def node(kubernetes: KubernetesServer, namespace: str) -> Iterator[str]:
    """One with three GPUs, and a pod on it that asks for two."""
    admin = kubernetes.client()
    name = f"gpu-{namespace}"
    admin.create(NODES, {"metadata": {"name": name}})
    admin.patch_status(NODES, name, {"capacity": {"nvidia.com/gpu": "3", "cpu": "8"}})
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {"containers": [container], "nodeName": name}
    admin.create(PODS, {"metadata": {"name": "train"}, "spec": spec}, namespace)
    admin.patch_status(PODS, "train", {"phase": "Running"}, namespace)
    yield name
    admin.delete(NODES, name)


def exposed(node: str, namespace: str) -> str:
    """What one exporter and one agent on the node would say, behind one address. GPU 2 says nothing."""
    lines = []
    holder = f',container="main",namespace="{namespace}",pod="train"'
    for number in (0, 1):
        gpu = f'gpu="{number}",UUID="GPU-{node}-{number}"'
        labels = f'{gpu},modelName="{MODEL}",Hostname="{node}"{holder}'
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 97",
            f"DCGM_FI_DEV_FB_USED{{{labels}}} 2048",
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 612.5",
        ]
        rank = f'rank="{number + 8}",local_rank="{number}",pid="{number + 100}"'
        seat = f'Hostname="{node}",namespace="{namespace}",pod="train"'
        lines.append(f"trilens_gpu_process_memory_bytes{{{gpu},{seat},{rank}}} 5")
    return "\n".join(lines) + "\n"


def settings_file(folder: Path, cluster: KubernetesServer, namespace: str, target: HttpTarget) -> Path:
    file = folder / "trilens.yaml"
    lab = {"kubeconfig": str(cluster.kubeconfig()), "namespaces": [namespace]}
    job = {
        "job_name": "gpus",
        "scrape_interval": "1s",
        "honor_labels": True,
        "static_configs": [{"targets": [target.address]}],
    }
    file.write_text(
        yaml.safe_dump({"kubernetes": {"clusters": {"lab": lab}}, "scrape": {"scrape_configs": [job]}})
    )
    return file


def gpus(url: str, *arguments: str) -> list[dict[str, Any]]:
    answer = trilens("gpus", "--server", url, "--json", *arguments)
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def infos(url: str) -> set[tuple[str, str, str, str]]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": "trilens_workload_gpu_info"}).json()
    metrics = [series["metric"] for series in answer["data"]["result"]]
    return {(one["UUID"], one["workload"], one["rank"], one["container"]) for one in metrics}


def held(url: str) -> int:
    return sum(len(gpu["holders"]) for gpu in httpx.get(f"{url}/api/gpus").json()["data"])


def test_gpus_their_pods_and_the_lost_one(
    kubernetes: KubernetesServer, namespace: str, node: str, tmp_path: Path
) -> None:
    with HttpTarget(exposed(node, namespace)) as target:
        config = str(settings_file(tmp_path, kubernetes, namespace, target))
        with server(tmp_path, "--config", config) as (url, _):
            until(lambda: held(url) == 2, "the GPUs have no holders")
            first, second, lost = sorted(gpus(url, "--node", node), key=lambda gpu: gpu["index"] or "9")
            assert (first["cluster"], first["node"], first["model"], first["state"]) == (
                "lab",
                node,
                MODEL,
                "reporting",
            )
            assert (first["utilization"], first["power_watts"]) == (0.97, 612.5)
            assert first["memory_used_bytes"] == 2 << 30
            (holder,) = second["holders"]
            assert (holder["workload"], holder["kind"], holder["rank"], holder["local_rank"]) == (
                "train",
                "Pod",
                9,
                1,
            )
            assert (holder["container"], holder["share"], holder["sources"], holder["doubts"]) == (
                "main",
                "1",
                ["process", "dcgm"],
                [],
            )
            assert (lost["state"], lost["uuid"], lost["count"]) == ("lost", None, 1)
            assert gpus(url, "--lost", "--node", node, "--cluster", "lab") == [lost]
            assert gpus(url, "-n", namespace, "--workload", "train", "--at", "-1h") == []
            assert infos(url) == {
                (f"GPU-{node}-{number}", "train", str(number + 8), "main") for number in (0, 1)
            }
            page = httpx.get(f"{url}/metrics/workloads").text
            assert f'trilens_gpu_lost{{cluster="lab",node="{node}"}} 1.0' in page
            assert f'UUID="GPU-{node}-0"' in page
            text = trilens("gpus", "--server", url).stdout
            assert f"{namespace}/train" in text
            assert "97%" in text
            shown = trilens("show", "train", "--server", url)
            assert shown.returncode == 0, shown.stderr
            assert "\ngpus\n" in shown.stdout
            assert f"train  {node}  1" in shown.stdout
