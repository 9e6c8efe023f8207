"""From a real API server to the commands, through everything: one job of four pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from kubernetes_client import NAMESPACES, NODES, PODS, Resource
from servers import until
from trilens_process import server, trilens
from workload_records import some_records

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from kubernetes_client import Json, KubernetesClient

pytestmark = pytest.mark.long


PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
PODS_OF_JOB = ["train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"]


def make_job(admin: KubernetesClient) -> None:
    """What the training operator would make of a job with a master and three workers, on one node."""
    admin.create(NAMESPACES, {"metadata": {"name": "ml"}})
    admin.create(NODES, {"metadata": {"name": "node-a"}})
    admin.define(PYTORCH_JOBS)
    labels = {"team": "vision", "experiment": "lr-sweep"}
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    job = admin.create(PYTORCH_JOBS, {"metadata": {"name": "train", "labels": labels}, "spec": spec}, "ml")
    for name in PODS_OF_JOB:
        _, role, index = name.split("-")
        make_pod(admin, job, name, role, index)


def make_pod(admin: KubernetesClient, job: Json, name: str, role: str, index: str) -> None:
    owner = {
        "apiVersion": PYTORCH_JOBS.api_version,
        "kind": PYTORCH_JOBS.kind,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    labels = {
        "training.kubeflow.org/job-name": job["metadata"]["name"],
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": index,
    }
    container = {"name": "pytorch", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"containers": [container], "nodeName": "node-a"}
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    admin.create(PODS, {"metadata": metadata, "spec": spec}, "ml")
    made = admin.get(PODS, name, "ml")["metadata"]["creationTimestamp"]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": made} for kind in ("PodScheduled", "Ready")
    ]
    running = {"name": "pytorch", "ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
    running["state"] = {"running": {"startedAt": made}}
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [running]}
    admin.patch_status(PODS, name, status, "ml")


def settings_file(folder: Path, cluster: KubernetesServer) -> Path:
    file = folder / "trilens.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "kubernetes": {"clusters": {"lab": {"kubeconfig": str(cluster.kubeconfig())}}},
                "ownership": {"team": ["label:team"], "experiment": ["label:experiment"]},
            }
        )
    )
    return file


def listed(url: str, *arguments: str) -> list[dict[str, Any]]:
    answer = trilens("workloads", "--server", url, "--json", *arguments)
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def shown(url: str, *arguments: str) -> dict[str, Any]:
    answer = trilens("show", *arguments, "--server", url, "--json")
    assert answer.returncode == 0, answer.stderr
    (found,) = json.loads(answer.stdout)
    return dict(found)


def infos(url: str) -> set[tuple[str, str, str, str]]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": "trilens_workload_pod_info"}).json()
    metrics = [series["metric"] for series in answer["data"]["result"]]
    return {(one["pod"], one["workload"], one["node_rank"], one["team"]) for one in metrics}


def restarts(url: str) -> float | None:
    """Of the job's containers, by the pods' series of kube-state-metrics."""
    query = """sum by (workload) (
        kube_pod_container_status_restarts_total
        * on (cluster, namespace, pod) group_left (workload) trilens_workload_pod_info
    )"""
    found = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()["data"]["result"]
    return float(found[0]["value"][1]) if found else None


def ready(url: str) -> int | None:
    found = httpx.get(f"{url}/api/workloads").json()["data"]
    return found[0]["members"]["ready"] if found else None


def warnings(url: str) -> list[str]:
    return list(httpx.get(f"{url}/api/workloads").json().get("warnings", []))


def test_a_job_is_seen_by_the_commands_and_keeps_its_history(
    private_kubernetes: KubernetesServer, tmp_path: Path
) -> None:
    admin = private_kubernetes.client()
    make_job(admin)
    config = str(settings_file(tmp_path, private_kubernetes))

    with server(tmp_path, "--config", config) as (url, _):
        until(lambda: ready(url) == 4, "the job is not seen")
        (job,) = listed(url, "-n", "ml")
        assert (job["kind"], job["name"], job["team"], job["experiment"]) == (
            "PyTorchJob",
            "train",
            "vision",
            "lr-sweep",
        )
        assert job["members"] == {"total": 4, "on_nodes": 4, "ready": 4}
        assert job["phase"]["phase"] == "running"
        assert job["doubts"] == []
        assert listed(url, "-n", "other") == []
        whole = shown(url, "pytorchjob/train")
        assert [(m["pod"], m["role"], m["node_rank"]) for m in whole["members"]] == [
            (pod, pod.split("-")[1], rank) for rank, pod in enumerate(PODS_OF_JOB)
        ]
        until(lambda: len(infos(url)) == 4, "the pods' info metrics are not there")
        assert ("train-worker-2", "train", "3", "vision") in infos(url)
        assert "trilens_workload" not in httpx.get(f"{url}/metrics").text
        exposed = httpx.get(f"{url}/metrics/workloads").text
        assert 'trilens_workload_pod_info{attempt="0",cluster="lab"' in exposed
        assert "trilens_workload_phase_seconds_total{" in exposed
        # Nobody scrapes a kube-state-metrics, so its series are there all the same, and join.
        until(lambda: restarts(url) == 0, "the restarts of the job are not known")
        assert 'kube_pod_info{cluster="lab",namespace="ml"' in httpx.get(f"{url}/metrics/kubernetes").text
        state = httpx.get(f"{url}/readyz").json()["kubernetes"]["state_metrics"]
        assert state == {"lab": "exported"}

    # While Trilens is away, a pod goes.
    admin.delete(PODS, "train-worker-2", "ml")

    with server(tmp_path, "--config", config) as (url, _):
        until(lambda: ready(url) == 3, "the job is not seen again")
        after = shown(url, "ml/train")
        assert [m["from_ms"] for m in after["members"]] == [m["from_ms"] for m in whole["members"]]
        assert [m["pod"] for m in after["members"] if m["to_ms"] is not None] == ["train-worker-2"]
        assert after["phases"][0]["from_ms"] == whole["phases"][0]["from_ms"]
        until(lambda: len(infos(url)) == 3, "the gone pod's info metric has not ended")

        admin.delete(PODS, "train-worker-1", "ml")
        until(lambda: ready(url) == 2, "the deleted pod is still there")
        left = {m["pod"] for m in shown(url, "train")["members"] if m["to_ms"] is not None}
        assert left == {"train-worker-1", "train-worker-2"}
        # Before that there were four.
        before = str(max(m["from_ms"] for m in after["members"]) / 1000)
        (then,) = listed(url, "--at", before)
        assert then["members"]["total"] == 4
        assert then["members"]["ready"] is None

        text = trilens("show", "train", "--server", url)
        assert text.returncode == 0, text.stderr
        assert "PyTorchJob.kubeflow.org ml/train in lab" in text.stdout
        assert "train-master-0" in text.stdout
        nothing = trilens("show", "nothing", "--server", url)
        assert (nothing.returncode, nothing.stdout) == (2, "")
        assert "no workload 'nothing'" in nothing.stderr

        # A cluster that no longer answers is shown as it was last seen, with a word on it.
        private_kubernetes.kill()
        until(lambda: "more; /readyz has them all" in " ".join(warnings(url)), "nothing is said of it")
        assert len(warnings(url)) == 4
        (kept,) = listed(url)
        assert kept["members"]["total"] == 2


def unreachable(folder: Path) -> Path:
    """Settings with a cluster behind a port on which nobody listens."""
    kubeconfig = folder / "kubeconfig"
    named = {"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "gone", "context": {"cluster": "gone", "user": "nobody"}}
    user = {"name": "nobody", "user": {"token": "x"}}
    kubeconfig.write_text(
        yaml.safe_dump(
            {"clusters": [named], "contexts": [context], "users": [user], "current-context": "gone"}
        )
    )
    file = folder / "trilens.yaml"
    file.write_text(yaml.safe_dump({"kubernetes": {"clusters": {"lab": {"kubeconfig": "kubeconfig"}}}}))
    return file


def complaints(url: str) -> list[str]:
    answer = httpx.get(f"{url}/readyz")
    assert answer.status_code == 200
    assert answer.json()["kubernetes"]["synced"] == {"lab": False}
    return list(answer.json()["kubernetes"]["complaints"])


def test_a_cluster_that_does_not_answer_is_said_and_hinders_nothing(tmp_path: Path) -> None:
    with some_records(tmp_path / "data"):
        pass  # what was known when Trilens last ran
    with server(tmp_path, "--config", str(unreachable(tmp_path))) as (url, _):
        until(lambda: any("127.0.0.1:1" in line for line in complaints(url)), "nothing is said")
        assert "lab: not read through yet" in complaints(url)
        answer = trilens("workloads", "--server", url, "-n", "web", "--json")
        assert "warning: lab: not read through yet" in answer.stderr
        # Unknown is not gone: what was last known is still open.
        (kept,) = json.loads(answer.stdout)
        assert kept["phase"]["to_ms"] is None
        assert kept["members"]["ready"] is None


def test_a_kubeconfig_that_cannot_be_used_is_said_at_once(tmp_path: Path) -> None:
    file = unreachable(tmp_path)
    (tmp_path / "kubeconfig").write_text("clusters: []")
    answer = trilens("up", "--config", str(file), "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert answer.returncode == 2
    assert "cluster 'lab'" in answer.stderr
