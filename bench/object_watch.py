"""The watching alone, of a cluster of 10,000 GPUs on a real API server: `python -m bench.object_watch`.

bench/cluster.py measures all of `trilens up` against a simulated cluster; here is only what lists and
watches, against kube-apiserver and etcd. The cluster is 1,250 nodes with 5,000 pods. It is followed by a
process of its own, so that what that uses can be told from what making the cluster uses. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from bench.watcher import MADE_AT
from kubernetes_api import kubernetes_server
from kubernetes_client import NODES, PODS, Json, KubernetesClient, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVENTS = Resource("", "v1", "events", "Event")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
PODS_PER_JOB = 8
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
NODE_BEATS = 4.0  # a second: each of 1,250 kubelets reports every five minutes
POD_CHANGES = 4.0  # a second: pods that live four hours change their status about eight times
EVENTS_MADE = 3.0  # a second
POD_TURNOVER = 0.5  # pods a second that come, and as many that go


@dataclass(frozen=True)
class Result:
    nodes: int
    pods: int
    sync_s: float  # from the start of the process's watch until all is known
    sync_cpu_s: float
    memory_bytes: int  # of the whole process, after the sync
    peak_bytes: int
    changes_a_second: float
    cores: float  # used while following those
    seen_median_s: float  # from asking the API server for a new pod to its being told
    seen_max_s: float


def run(nodes: int, pods: int, seconds: float) -> Result:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, kubernetes_server(Path(folder)) as server:
        admin = server.client()
        _make_cluster(admin, nodes, pods)
        command = [sys.executable, "-m", "bench.watcher", str(server.kubeconfig())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout is not None
            assert watcher.stdin is not None
            first = json.loads(watcher.stdout.readline())
            process = psutil.Process(watcher.pid)
            before = process.cpu_times()
            began = time.monotonic()
            made = _change(admin, nodes, pods, seconds)
            took = time.monotonic() - began
            after = process.cpu_times()
            watcher.stdin.close()  # which ends it
            last = json.loads(watcher.stdout.readline())
    used = after.user + after.system - before.user - before.system
    return Result(
        nodes=nodes,
        pods=pods,
        **first,
        peak_bytes=last["peak_bytes"],
        changes_a_second=round(made / took, 1),
        cores=round(used / took, 4),
        seen_median_s=round(median(last["seen_s"]), 4),
        seen_max_s=round(max(last["seen_s"]), 4),
    )


def _make_cluster(admin: KubernetesClient, nodes: int, pods: int) -> None:
    admin.define(PYTORCH_JOBS)
    jobs = admin.create_all(PYTORCH_JOBS, (_job(i) for i in range(pods // PODS_PER_JOB)), "default")
    admin.create_all(
        NODES, ({"metadata": {"name": _node_name(i), "labels": _node_labels(i)}} for i in range(nodes))
    )
    uids = [job["metadata"]["uid"] for job in jobs]
    made = admin.create_all(PODS, (_pod(i, nodes, uids) for i in range(pods)), "default")
    with ThreadPoolExecutor(16) as threads:
        node_names = [_node_name(i) for i in range(nodes)]
        list(threads.map(lambda name: admin.patch_status(NODES, name, _node_status()), node_names))
        names = [pod["metadata"]["name"] for pod in made]
        list(threads.map(lambda name: admin.patch_status(PODS, name, _pod_status(), "default"), names))


def _node_name(i: int) -> str:
    return f"gpu-{i:05}"


def _node_labels(i: int) -> Json:
    return {
        "kubernetes.io/hostname": _node_name(i),
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.count": "8",
        "topology.kubernetes.io/zone": f"zone-{i % 3}",
        "example.com/rack": f"rack-{i // 16}",
    }


def _node_status() -> Json:
    size = {"cpu": "192", "memory": "2113494728Ki", "nvidia.com/gpu": "8", "pods": "110"}
    images = [
        {"names": [f"registry.example.com/ml/image-{k}@sha256:{'0f' * 32}"], "sizeBytes": 9_000_000_000}
        for k in range(40)
    ]
    return {
        "capacity": size,
        "allocatable": size,
        "conditions": [_condition(kind) for kind in CONDITIONS],
        "addresses": [{"type": "InternalIP", "address": _address()}],
        "images": images,
    }


def _condition(kind: str) -> Json:
    return {
        "type": kind,
        "status": "True" if kind == "Ready" else "False",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": _now(),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _pod_status() -> Json:
    return {
        "phase": "Running",
        "startTime": _now(),
        "hostIP": _address(),
        "podIP": _address(),
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": _now()}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "pytorch",
                "image": "registry.example.com/ml/train:2026.1",
                "imageID": f"registry.example.com/ml/train@sha256:{'0f' * 32}",
                "containerID": f"containerd://{random.randbytes(32).hex()}",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": _now()}},
            }
        ],
    }


def _address() -> str:
    return ".".join(str(random.randrange(1, 255)) for _ in range(4))


def _job(i: int) -> Json:
    worker = {"replicas": PODS_PER_JOB, "template": {"spec": {"containers": [{"name": "pytorch"}]}}}
    return {"metadata": {"name": f"job-{i}"}, "spec": {"pytorchReplicaSpecs": {"Worker": worker}}}


def _pod(i: int, nodes: int, job_uids: list[str]) -> Json:
    job, index = divmod(i, PODS_PER_JOB)
    job %= len(job_uids)
    variables = {"RANK": str(index), "WORLD_SIZE": str(PODS_PER_JOB), "MASTER_ADDR": f"job-{job}-worker-0"}
    variables |= {f"SETTING_{k}": "some text of the usual length" for k in range(20)}
    container = {
        "name": "pytorch",
        "image": "registry.example.com/ml/train:2026.1",
        "command": ["torchrun", "--nnodes=8", "train.py"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "24", "memory": "256Gi"}},
        "ports": [{"name": "rendezvous", "containerPort": 23456}],
    }
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "name": f"job-{job}",
        "uid": job_uids[job],
    }
    return {
        "metadata": {
            "name": f"job-{job}-worker-{i}",
            "labels": {
                "training.kubeflow.org/job-name": f"job-{job}",
                "training.kubeflow.org/replica-index": str(index),
                "training.kubeflow.org/replica-type": "worker",
                "team": f"team-{job % 20}",
            },
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "x" * 3000,
                MADE_AT: repr(time.time()),
            },
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "nodeName": _node_name(i % nodes),
            "containers": [container],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def _change(admin: KubernetesClient, nodes: int, pods: int, seconds: float) -> int:
    """As a cluster at work does; how many changes were made."""
    chance = random.Random(7)
    uids = ["00000000-0000-0000-0000-000000000000"]
    newest = pods
    names = [pod["metadata"]["name"] for pod in admin.list(PODS, "default")["items"]]

    def beat() -> None:
        conditions = [_condition(kind) for kind in CONDITIONS]
        admin.patch_status(NODES, _node_name(chance.randrange(nodes)), {"conditions": conditions})

    def change_pod() -> None:
        admin.patch_status(PODS, chance.choice(names), _pod_status(), "default")

    def tell() -> None:
        about = {"kind": "Pod", "namespace": "default", "name": chance.choice(names)}
        name = f"e-{time.monotonic_ns()}"
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": "Pulled", "type": "Normal"}
        admin.create(EVENTS, event, "default")

    def turn_over() -> None:
        nonlocal newest
        made = admin.create(PODS, _pod(newest, nodes, uids), "default")
        names.append(made["metadata"]["name"])
        admin.delete(PODS, names.pop(0), "default")
        newest += 1

    rates: list[tuple[float, Callable[[], None]]] = [
        (NODE_BEATS, beat),
        (POD_CHANGES, change_pod),
        (EVENTS_MADE, tell),
        (POD_TURNOVER, turn_over),
    ]
    began = time.monotonic()
    done = 0
    for at, act in sorted(_schedule(rates, seconds), key=lambda planned: planned[0]):
        time.sleep(max(0.0, began + at - time.monotonic()))
        act()
        done += 2 if act is turn_over else 1
    return done


def _schedule(
    rates: list[tuple[float, Callable[[], None]]], seconds: float
) -> Iterator[tuple[float, Callable[[], None]]]:
    for rate, act in rates:
        for i in range(round(rate * seconds)):
            yield i / rate, act


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    print(json.dumps(asdict(run(args.nodes, args.pods, args.seconds)), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
