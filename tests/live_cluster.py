"""A server that watches a real API server and asks an agent: what a case is gathered from.

A job that waits for GPUs, another that runs and writes, on one node. What must not be handed on is in them.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import yaml

from http_target import HttpTarget
from kubernetes_client import NAMESPACES, NODES, PODS, Resource
from servers import until
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from kubernetes_client import Json, KubernetesClient

JOBS = Resource("batch", "v1", "jobs", "Job")
EVENTS = Resource("", "v1", "events", "Event")
SECRETS = ("hunter2-in-env", "hf_abcdefghijklmnopqrstuvwx", "pull-me-not", "s3cr3t-flag", "log-password")
UNSCHEDULABLE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


class LiveCluster(NamedTuple):
    url: str
    namespace: str
    node: str
    folder: Path
    agent: HttpTarget

    def tell_faults(self, *faults: tuple[str, int]) -> None:
        """What the agent tells from here on, after its first: nodes and codes."""
        told = [
            {**_fault(node, self.namespace, None), "number": n, "id": f"{node}-{n}", "code": code}
            for n, (node, code) in enumerate(faults, 2)
        ]
        answer = {"ledger": f"ledger-{self.namespace}", "events": told}
        self.agent.say(json.dumps(answer), "/v1/events")

    def get(self, path: str, **params: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", params=params, timeout=60)

    def why(self, subject: str, **params: str) -> dict[str, Any]:
        answer = self.get("/api/why", subject=subject, **params)
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["data"]
        return data


@contextmanager
def live_cluster(
    kubernetes: KubernetesServer, folder: Path, name: str, *, policy: Json | None = None
) -> Iterator[LiveCluster]:
    """`name` is that of the namespace, and a part of the node's; `policy` is that of `trilens fix`."""
    admin, node = kubernetes.client(), f"{name}-node"
    admin.create(NAMESPACES, {"metadata": {"name": name}})
    make_node(admin, node)
    _make_job(admin, name, "waiting", node=None)
    runs = _make_job(admin, name, "running", node=node)
    agent = HttpTarget()
    agent.say(json.dumps({"node": node, "processes": [], "workloads": []}), "/v1/processes")
    agent.say(json.dumps({"ledger": f"ledger-{name}", "events": [_fault(node, name, runs)]}), "/v1/events")
    agent.say(json.dumps({"pods": [_output(runs)]}), "/v1/output")
    with agent:
        settings: Json = {
            "kubernetes": {"clusters": {"lab": {"kubeconfig": str(kubernetes.kubeconfig())}}},
            "agents": {
                "interval": "200ms",
                "scrape_config": {"static_configs": [{"targets": [agent.address]}]},
            },
        }
        if policy is not None:
            (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
            settings["cure"] = {"policy": "policy.yaml"}
        config = folder / "trilens.yaml"
        config.write_text(yaml.safe_dump(settings))
        with server(folder, "--config", str(config)) as (url, _):
            cluster = LiveCluster(url, name, node, folder, agent)
            until(lambda: _is_seen(cluster), "the jobs are not seen")
            yield cluster


def _is_seen(cluster: LiveCluster) -> bool:
    found = cluster.get("/api/workloads", namespace=cluster.namespace).json()["data"]
    events = cluster.get("/api/events", node=cluster.node).json()["data"]
    return len(found) == 2 and bool(events)


def make_node(admin: KubernetesClient, name: str) -> None:
    admin.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    amounts = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    admin.patch_status(NODES, name, {"capacity": amounts, "allocatable": amounts, "conditions": ready})


def _make_job(admin: KubernetesClient, namespace: str, name: str, node: str | None) -> Json:
    container = {
        "name": "main",
        "image": "x",
        "command": ["python", "train.py", "--api-key", SECRETS[3], f"--hub={SECRETS[1]}"],
        "env": [{"name": "DB_LOGIN", "value": SECRETS[0]}, {"name": "CUDA_VISIBLE_DEVICES", "value": ""}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    spec = {"containers": [container], "restartPolicy": "Never", "imagePullSecrets": [{"name": SECRETS[2]}]}
    job = admin.create(JOBS, {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}, namespace)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": f"{name}-0",
        "ownerReferences": [owner],
        "labels": {"job-name": name},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRETS[0]},
    }
    placed = {"nodeName": node} if node is not None else {}
    pod = admin.create(PODS, {"metadata": metadata, "spec": {**spec, **placed}}, namespace)
    made = pod["metadata"]["creationTimestamp"]
    if node is None:
        refused = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": UNSCHEDULABLE,
            "lastTransitionTime": made,
        }
        admin.patch_status(
            PODS, pod["metadata"]["name"], {"phase": "Pending", "conditions": [refused]}, namespace
        )
        _tell(admin, namespace, pod)
        return pod
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": made} for kind in ("PodScheduled", "Ready")
    ]
    state = {"name": "main", "ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
    state["state"] = {"running": {"startedAt": made}}
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [state]}
    admin.patch_status(PODS, pod["metadata"]["name"], status, namespace)
    return pod


def _tell(admin: KubernetesClient, namespace: str, pod: Json) -> None:
    metadata = pod["metadata"]
    event = {
        "metadata": {"name": f"{metadata['name']}.1"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": namespace,
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "reason": "FailedScheduling",
        "message": UNSCHEDULABLE,
        "type": "Warning",
        "count": 3,
        "firstTimestamp": metadata["creationTimestamp"],
        "lastTimestamp": metadata["creationTimestamp"],
        "source": {"component": "default-scheduler"},
    }
    admin.create(EVENTS, event, namespace)


def _fault(node: str, namespace: str, pod: Json | None) -> dict[str, Any]:
    """`pod` is whom it hit, if any."""
    hit = [{"namespace": namespace, "name": "running-0", "uid": pod["metadata"]["uid"]}] if pod else []
    return {
        "number": 1,
        "id": f"{node}-1",
        "node": node,
        "t_ms": int(time.time() * 1000),
        "kind": "xid",
        "code": 31,
        "text": "Ch 00000008, intr 00000000. MMU Fault",
        "title": "a fault of memory access",
        "asks": None,
        "uuid": "GPU-1",
        "gpu": 0,
        "pci": "0000:1b:00",
        "pid": 463,
        "process_name": "python",
        "process": None,
        "pods": hit,
    }


def _output(pod: Json) -> dict[str, Any]:
    lines = ["step 1 of running-0", f"login with password={SECRETS[4]}"]
    runs = [{"run": 0, "lines": lines}]
    return {
        "uid": pod["metadata"]["uid"],
        "containers": [{"container": "main", "runs": runs, "termination_messages": []}],
    }
