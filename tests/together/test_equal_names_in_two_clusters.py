"""Two clusters in one Trilens in which all has the same name: nothing is mixed up.

Two real API servers. What differs is what always does: uids, UUIDs of GPUs, the label `cluster` of samples.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from http_target import HttpTarget
from kubernetes_api import kubernetes_server
from kubernetes_client import NAMESPACES, NODES, PODS, Resource
from run_lines import Sender
from servers import until
from trilens.cli.main import app
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes_api import KubernetesServer

JOBS = Resource("batch", "v1", "jobs", "Job")
NAMESPACE, NODE = "same", "gpu-1"
CLUSTERS = ("east", "west")
PRICES = """
currency: USD
defaults: false
prices:
  - {name: cheap, match: {cluster: east}, per_gpu_hour: 2}
  - {name: dear, match: {cluster: west}, per_gpu_hour: 6}
"""
RULES = """
groups:
  - name: heat
    interval: 1s
    rules:
      - alert: Hot
        expr: DCGM_FI_DEV_GPU_TEMP > 80
        labels: {severity: warning}
"""


def fill(cluster: KubernetesServer) -> None:
    admin = cluster.client()
    admin.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    admin.create(NODES, {"metadata": {"name": NODE}})
    amounts = {"nvidia.com/gpu": "2", "cpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    admin.patch_status(NODES, NODE, {"capacity": amounts, "allocatable": amounts, "conditions": ready})
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {"containers": [container], "restartPolicy": "Never"}
    job = admin.create(JOBS, {"metadata": {"name": "train"}, "spec": {"template": {"spec": spec}}}, NAMESPACE)
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    pod = {"metadata": {"name": "train-0", "ownerReferences": [owner]}, "spec": {**spec, "nodeName": NODE}}
    admin.create(PODS, pod, NAMESPACE)
    admin.patch_status(PODS, "train-0", {"phase": "Running"}, NAMESPACE)


def exposed(cluster: str, heat: int) -> str:
    lines = []
    for number in (0, 1):
        labels = (
            f'gpu="{number}",UUID="GPU-{cluster}-{number}",modelName="H100",Hostname="{NODE}",'
            f'container="main",namespace="{NAMESPACE}",pod="train-0"'
        )
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 90",
            f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} {heat}",
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 500",
        ]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def url(kubernetes_of_module: KubernetesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("clusters")
    (folder / "rules.yaml").write_text(RULES)
    (folder / "prices.yaml").write_text(PRICES)
    (folder / "other").mkdir()
    with (
        kubernetes_server(folder / "other") as other,
        HttpTarget(exposed("east", 70)) as east,
        HttpTarget(exposed("west", 90)) as west,
    ):
        for one in (kubernetes_of_module, other):
            fill(one)
        jobs = [
            {
                "job_name": f"gpus-{name}",
                "scrape_interval": "1s",
                "honor_labels": True,
                "static_configs": [{"targets": [target.address], "labels": {"cluster": name}}],
            }
            for name, target in zip(CLUSTERS, (east, west), strict=True)
        ]
        settings = {
            "kubernetes": {
                "clusters": {
                    name: {"kubeconfig": str(one.kubeconfig()), "namespaces": [NAMESPACE]}
                    for name, one in zip(CLUSTERS, (kubernetes_of_module, other), strict=True)
                }
            },
            "scrape": {"scrape_configs": jobs},
            "rules": {"files": ["rules.yaml"]},
            "prices": {"file": "prices.yaml"},
        }
        config = folder / "trilens.yaml"
        config.write_text(yaml.safe_dump(settings))
        with server(folder, "--config", str(config)) as (url, _):
            until(lambda: holders(url) == dict.fromkeys(CLUSTERS, 2), "the GPUs have no holders")
            yield url


def asked(url: str, path: str, **params: str) -> Any:
    answer = httpx.get(f"{url}{path}", params=params, timeout=60, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def refused(url: str, path: str, **params: str) -> str:
    answer = httpx.get(f"{url}{path}", params=params, timeout=60, trust_env=False)
    assert answer.status_code == 400
    return str(answer.json()["error"])


def holders(url: str) -> dict[str, int]:
    return Counter(gpu["cluster"] for gpu in asked(url, "/api/gpus") for _ in gpu["holders"])


def test_workloads(url: str) -> None:
    found = asked(url, "/api/workloads", namespace=NAMESPACE)
    assert sorted((one["cluster"], one["name"]) for one in found) == [(name, "train") for name in CLUSTERS]


def test_gpus_and_who_holds_them(url: str) -> None:
    for gpu in asked(url, "/api/gpus"):
        assert gpu["uuid"].startswith(f"GPU-{gpu['cluster']}-"), gpu
        assert [one["workload"] for one in gpu["holders"]] == ["train"], gpu


def test_series_of_equal_names(url: str) -> None:
    found = asked(url, "/api/v1/query", query="count by (cluster) (trilens_workload_gpu_info)")["result"]
    assert {one["metric"]["cluster"]: one["value"][1] for one in found} == dict.fromkeys(CLUSTERS, "2")
    heat = asked(url, "/api/v1/query", query="max by (cluster) (DCGM_FI_DEV_GPU_TEMP)")["result"]
    assert {one["metric"]["cluster"]: one["value"][1] for one in heat} == {"east": "70", "west": "90"}


def test_what_a_machine_costs(url: str) -> None:
    assert "in several clusters: east, west" in refused(url, "/api/prices/choice", node=NODE)
    for name, price in (("east", "cheap"), ("west", "dear")):
        assert asked(url, "/api/prices/choice", node=NODE, cluster=name)["price"] == price


def test_incidents(url: str) -> None:
    def hot() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = asked(url, "/api/incidents")
        return [one for one in found if any(symptom["name"] == "Hot" for symptom in one["symptoms"])]

    def workloads() -> set[str]:
        return {one["subject"]["workload"]["cluster"] for one in hot() if one["subject"]["workload"]}

    until(lambda: workloads() == {"west"}, "no incident of a workload")
    for one in hot():
        assert one["subject"]["cluster"] == "west"
        assert "east" not in str(one)


def test_who_is_meant_is_asked_back(url: str) -> None:
    known = "east/same/Job.batch/train, west/same/Job.batch/train"
    assert known in refused(url, "/api/why", subject="train")
    found = asked(url, "/api/why", subject="west/same/Job.batch/train")
    assert "GPU-east" not in str(found)


def test_pages_have_both(url: str) -> None:
    def nodes() -> list[tuple[str, str]]:
        found = asked(url, "/api/fleet")["nodes"]
        return sorted(zip(found["cluster"], found["name"], strict=True))

    until(lambda: nodes() == [(name, NODE) for name in CLUSTERS], lambda: f"the map has {nodes()}")
    for name in CLUSTERS:
        timeline = asked(url, f"/api/workloads/{name}/{NAMESPACE}/Job.batch/train/timeline")
        other = next(one for one in CLUSTERS if one != name)
        assert f"GPU-{other}" not in str(timeline)


def test_runs(url: str) -> None:
    """Told by the names of their pods alone, as where the kubelet's files do not show a uid."""
    for run, cluster in (("of-east", "east"), ("of-west", "west"), ("of-nobody", None)):
        process = {"started_ms": 1_000, "namespace": NAMESPACE, "pod": "train-0", "cluster": cluster}
        line = Sender(run=run).first(2, process=process)
        taken = httpx.post(f"{url}/api/v1/runs/records", content=line, timeout=60, trust_env=False)
        assert taken.status_code == 200, taken.text
    for cluster in CLUSTERS:
        found = asked(url, f"/api/runs/of-{cluster}")
        assert [one["cluster"] for one in found["run"]["workloads"]] == [cluster]
        assert [one["cluster"] for one in found["ranks"]] == [cluster]
    unclear = httpx.get(f"{url}/api/runs/of-nobody", timeout=60, trust_env=False).json()
    assert unclear["data"]["run"]["workloads"] == []
    assert "train-0 of rank 0 may be one of east and west" in str(unclear["warnings"])
    shown = CliRunner().invoke(app, ["runs", "show", "of-nobody", "--server", url])
    assert "set TRILENS_CLUSTER" in shown.output
