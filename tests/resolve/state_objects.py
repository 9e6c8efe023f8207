"""Objects that between them have everything to say that kube-state-metrics tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kube_objects import Manifest, at, to_object
from trilens.resolve.kube_state.kinds import state_samples

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject

OWNER = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "name": "train",
    "uid": "u-9",
    "controller": True,
}
ENDED = {"exitCode": 137, "reason": "OOMKilled", "startedAt": at(1), "finishedAt": at(8)}


def made(api_version: str, kind: str, name: str, namespace: str = "ml", **parts: Any) -> Manifest:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"u-{name}",
        "creationTimestamp": at(0),
        **parts.pop("metadata", {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def container_status(name: str, **parts: Any) -> Manifest:
    return {
        "name": name,
        "image": "registry/train:1",
        "imageID": "sha256:1",
        "containerID": f"containerd://{name}",
        "ready": False,
        "restartCount": 0,
        "state": {},
        **parts,
    }


def condition(type_: str, status: str = "True", **parts: Any) -> Manifest:
    return {"type": type_, "status": status, "lastTransitionTime": at(5), **parts}


def running_pod(**status: Any) -> Manifest:
    resources = {
        "requests": {"cpu": "1500m", "memory": "16Gi", "nvidia.com/gpu": "8", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": 2, "memory": "1e3", "example.com/odd": "?", "pods": "1", "kubernetes.io/own": "1"},
    }
    main = {"name": "main", "image": "train:1", "resources": resources}
    prepare = {"name": "prepare", "image": "prepare:1", "restartPolicy": "Always", "resources": resources}
    return made(
        "v1",
        "Pod",
        "train-0",
        metadata={"ownerReferences": [OWNER]},
        spec={
            "nodeName": "node-a",
            "hostNetwork": True,
            "priorityClassName": "high",
            "containers": [main],
            "initContainers": [prepare],
        },
        status={
            "phase": "Running",
            "hostIP": "10.1.0.1",
            "podIP": "10.2.0.1",
            "startTime": at(3),
            "conditions": [condition("PodScheduled"), condition("Ready", "False")],
            "containerStatuses": [
                container_status(
                    "main",
                    ready=True,
                    restartCount=3,
                    state={"running": {"startedAt": at(9)}},
                    lastState={"terminated": ENDED},
                )
            ],
            "initContainerStatuses": [
                container_status("prepare", state={"terminated": ENDED}, lastState={"terminated": ENDED})
            ],
            **status,
        },
    )


def waiting_pod() -> Manifest:
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    return made(
        "v1",
        "Pod",
        "wait-0",
        spec={"containers": [{"name": "main"}], "initContainers": [{"name": "prepare"}]},
        status={
            "phase": "Pending",
            "reason": "Evicted",
            "conditions": [condition("PodScheduled", "False")],
            "containerStatuses": [container_status("main", state=waiting)],
            "initContainerStatuses": [container_status("prepare", state=waiting)],
        },
    )


def ended_pod() -> Manifest:
    later = {**ENDED, "finishedAt": at(11)}
    return made(
        "v1",
        "Pod",
        "done-0",
        spec={"containers": [{"name": "main"}, {"name": "side"}]},
        status={
            "phase": "Failed",
            "reason": "SomethingNew",
            "containerStatuses": [
                container_status("main", state={"terminated": later}),
                container_status("side", state={"terminated": ENDED}),
            ],
        },
    )


def node() -> Manifest:
    return made(
        "v1",
        "Node",
        "node-a",
        "",
        metadata={"labels": {"node-role.kubernetes.io/gpu": "", "zone": "a"}},
        spec={
            "unschedulable": True,
            "podCIDR": "10.2.0.0/24",
            "providerID": "aws:///i-1",
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        status={
            "capacity": {"cpu": "128", "memory": "1Ki", "pods": "110", "nvidia.com/gpu": "8"},
            "allocatable": {"cpu": "127500m", "ephemeral-storage": "1500m"},
            "conditions": [condition("Ready"), condition("DiskPressure", "Unknown")],
            "nodeInfo": {
                "kernelVersion": "6.1",
                "osImage": "Debian",
                "containerRuntimeVersion": "containerd://2",
                "kubeletVersion": "v1.33",
                "kubeProxyVersion": "v1.33",
                "systemUUID": "s-1",
            },
            "addresses": [
                {"type": "Hostname", "address": "node-a"},
                {"type": "InternalIP", "address": "10.1.0.1"},
                {"type": "InternalIP", "address": "fd00::1"},
            ],
        },
    )


def job(**status: Any) -> Manifest:
    return made(
        "batch/v1",
        "Job",
        "prepare",
        metadata={"ownerReferences": [{**OWNER, "controller": False}]},
        spec={"parallelism": 2, "completions": 4, "activeDeadlineSeconds": 60},
        status={
            "active": 1,
            "startTime": at(2),
            "completionTime": at(50),
            "conditions": [condition("Complete"), condition("Suspended", "False")],
            **status,
        },
    )


def others() -> list[Manifest]:
    replicas = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 1}
    progressing = condition("Progressing", reason="NewReplicaSetAvailable")
    return [
        made(
            "apps/v1",
            "Deployment",
            "web",
            spec={"replicas": 3, "paused": True},
            status={
                **replicas,
                "unavailableReplicas": 1,
                "conditions": [progressing, condition("Available", "False", reason="Odd")],
            },
        ),
        made(
            "apps/v1",
            "StatefulSet",
            "db",
            spec={"replicas": 3},
            status={**replicas, "currentReplicas": 2, "currentRevision": "db-1", "updateRevision": "db-2"},
        ),
        made("apps/v1", "ReplicaSet", "web-1", spec={"replicas": 3}, status=replicas),
        made("apps/v1", "DaemonSet", "agent", status={"desiredNumberScheduled": 8, "numberReady": 7}),
        made("v1", "Namespace", "ml", "", status={"phase": "Active"}),
        made(
            "v1",
            "ResourceQuota",
            "gpus",
            status={
                "hard": {"requests.nvidia.com/gpu": "64", "limits.cpu": "100"},
                "used": {"requests.nvidia.com/gpu": "8", "limits.cpu": "1500m"},
            },
        ),
        made(
            "v1",
            "PersistentVolumeClaim",
            "data",
            spec={
                "storageClassName": "fast",
                "volumeName": "pv-1",
                "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Ti"}},
            },
            status={"phase": "Bound"},
        ),
    ]


def every_object() -> list[KubeObject]:
    failed = job(failed=5, conditions=[condition("Failed", reason="BackoffLimitExceeded")])
    pods = [running_pod(), waiting_pod(), ended_pod()]
    owned = made("apps/v1", "ReplicaSet", "web-2", metadata={"ownerReferences": [OWNER]})
    return [to_object(manifest, "lab") for manifest in (*pods, node(), job(), failed, owned, *others())]


def told(manifest: Manifest) -> list[str]:
    """What is told of an object, a line each, without the labels that name it."""
    obj = to_object(manifest, "lab")
    named = {"cluster", "namespace", "uid", obj.kind.lower(), "job_name"}
    lines = []
    for metric, value, labels in state_samples(obj):
        pairs = ",".join(f"{k}={v}" for k, v in labels.items() if v and k not in named)
        lines.append(f"{metric}{{{pairs}}} {value:g}")
    return lines
