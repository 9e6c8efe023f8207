"""Small jobs of several operators, and single objects, for tests to put together."""

from __future__ import annotations

import copy
from typing import Any

from kube_objects import MadeObjects, Manifest, owned_by

GPU = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
NO_GPU = {"containers": [{"name": "main"}]}


def make(
    made: MadeObjects, api_version: str, kind: str, name: str, owner: Manifest | None = None, **more: Any
) -> Manifest:
    meta = {"name": name, **more.pop("meta", {})}
    if owner is not None:
        meta["ownerReferences"] = [owned_by(owner)]
    return made.create({"apiVersion": api_version, "kind": kind, "metadata": meta, **more})


def make_pod(
    made: MadeObjects,
    name: str,
    owner: Manifest | None = None,
    labels: dict[str, str] | None = None,
    spec: Manifest = GPU,
    **meta: Any,
) -> Manifest:
    return make(
        made, "v1", "Pod", name, owner, spec=copy.deepcopy(spec), meta={"labels": labels or {}, **meta}
    )


PYTORCHJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "llm"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": GPU}},
            "Worker": {"replicas": 2, "template": {"spec": GPU}},
        }
    },
}
MPIJOB = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {"name": "pi"},
    "spec": {
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": NO_GPU}},
            "Worker": {"replicas": 2, "template": {"spec": GPU}},
        }
    },
}
JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "train"},
    "spec": {
        "replicatedJobs": [
            {"name": "driver", "template": {"spec": {"parallelism": 1, "template": {"spec": NO_GPU}}}},
            {
                "name": "workers",
                "replicas": 2,
                "template": {"spec": {"parallelism": 2, "completions": 2, "template": {"spec": GPU}}},
            },
        ]
    },
}
LWS = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "vllm"},
    "spec": {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": GPU}},
    },
}
RAYJOB = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "tune"},
    "spec": {
        "rayClusterSpec": {
            "headGroupSpec": {"template": {"spec": NO_GPU}},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": {"spec": GPU}}],
        }
    },
}
