"""What each operator would make of a manifest: its objects and pods, with the labels and owners it documents.

`put_to_work` only needs a way to create an object and get it back with its uid, so the same works on an API
server. It returns where each pod belongs, written down here and not asked of the code under test.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from kube_objects import Manifest, owned_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Kinds among the manifests that are no workloads: what they configure, or what serves one.
NO_WORKLOAD = {
    "AdmissionCheck",
    "ClusterQueue",
    "ClusterTrainingRuntime",
    "ComputeDomain",
    "ConfigMap",
    "LocalQueue",
    "Namespace",
    "ProvisioningRequestConfig",
    "ResourceClaimTemplate",
    "ResourceFlavor",
    "Secret",
    "Service",
    "Topology",
}


class Expected(NamedTuple):
    role: str = ""
    group: int | None = None
    rank: int | None = None


class AtWork(NamedTuple):
    kind: str
    name: str
    members: dict[str, Expected]  # by pod name


def put_to_work(
    manifest: Manifest, create: Callable[[Manifest], Manifest], runtimes: Iterable[Manifest] = ()
) -> AtWork | None:
    """None for what is no workload. `runtimes`: the ClusterTrainingRuntimes that a TrainJob may name."""
    kind = manifest["kind"]
    if kind in NO_WORKLOAD:
        return None
    makers: dict[str, Callable[[Manifest, Callable[[Manifest], Manifest]], dict[str, Expected]]] = {
        "Pod": lambda job, _: {job["metadata"]["name"]: Expected()},
        "Deployment": _deployment,
        "JobSet": _jobset,
        "TrainJob": lambda job, make: _trainjob(job, make, runtimes),
        "PyTorchJob": _training_v1,
        "TFJob": _training_v1,
        "PaddleJob": _training_v1,
        "MPIJob": _mpijob,
        "RayCluster": _raycluster,
        "RayJob": _rayjob,
        "RayService": _rayservice,
        "LeaderWorkerSet": _leaderworkerset,
        "InferenceService": _inference_service,
        "LLMInferenceService": _llm_inference_service,
    }
    if kind == "Job":
        maker = _volcano_job if manifest["apiVersion"].startswith("batch.volcano.sh/") else _batch_job
    else:
        maker = makers[kind]
    job = create(copy.deepcopy(manifest))
    return AtWork(kind, job["metadata"]["name"], maker(job, create))


def _child(
    owner: Manifest,
    api_version: str,
    kind: str,
    name: str,
    labels: dict[str, str],
    spec: Any = None,
    **meta: Any,
) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(labels),
            "ownerReferences": [owned_by(owner)],
            **meta,
        },
        "spec": spec or {},
    }


def _pod(
    owner: Manifest, name: str, labels: dict[str, str], template: Manifest, annotations: Any = None
) -> Manifest:
    meta = template.get("metadata", {})
    return _child(
        owner,
        "v1",
        "Pod",
        name,
        {**meta.get("labels", {}), **labels},
        copy.deepcopy(template["spec"]),
        annotations={**meta.get("annotations", {}), **(annotations or {})},
    )


def _batch_pods(
    job: Manifest, create: Callable[[Manifest], Manifest], more: dict[str, str], *, indexed: bool
) -> list[str]:
    spec = job["spec"]
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "job-name": name,
        "controller-uid": uid,
        **more,
    }
    pods = []
    for index in range(min(spec.get("parallelism", 1), spec.get("completions", 1_000_000))):
        marks = {"batch.kubernetes.io/job-completion-index": str(index)} if indexed else {}
        pod_name = f"{name}-{index}-x{len(name)}" if indexed else f"{name}-x{index}"
        pods.append(pod_name)
        create(_pod(job, pod_name, {**labels, **marks}, spec["template"], {**more, **marks}))
    return pods


def _batch_job(job: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    pods = _batch_pods(job, create, {}, indexed=False)
    return {pod: Expected(rank=0 if len(pods) == 1 else None) for pod in pods}


def _jobset(jobset: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    expected = {}
    name = jobset["metadata"]["name"]
    rank = global_index = 0
    for replicated in jobset["spec"]["replicatedJobs"]:
        for index in range(replicated.get("replicas", 1)):
            marks = {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/jobset-uid": jobset["metadata"]["uid"],
                "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
                "jobset.sigs.k8s.io/job-index": str(index),
                "jobset.sigs.k8s.io/job-global-index": str(global_index),
                "jobset.sigs.k8s.io/restart-attempt": "0",
            }
            template = replicated["template"]
            labels = {**template.get("metadata", {}).get("labels", {}), **marks}
            job = create(
                _child(
                    jobset,
                    "batch/v1",
                    "Job",
                    f"{name}-{replicated['name']}-{index}",
                    labels,
                    template["spec"],
                    annotations=dict(marks),
                )
            )
            for pod in _batch_pods(job, create, marks, indexed=True):
                expected[pod] = Expected(replicated["name"], global_index, rank)
                rank += 1
            global_index += 1
    return expected


_TORCH = {
    "replicatedJobs": [
        {
            "name": "node",
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "pytorch"}]}}},
            },
        }
    ]
}


def _trainjob(
    job: Manifest, create: Callable[[Manifest], Manifest], runtimes: Iterable[Manifest]
) -> dict[str, Expected]:
    named = job["spec"]["runtimeRef"]["name"]
    runtime = next((one for one in runtimes if one["metadata"]["name"] == named), None)
    spec = copy.deepcopy(runtime["spec"]["template"]["spec"] if runtime is not None else _TORCH)
    trainer = job["spec"].get("trainer", {})
    labels = {}
    for patch in job["spec"].get("runtimePatches", ()):
        labels |= patch["trainingRuntimeSpec"]["template"].get("metadata", {}).get("labels", {})
    nodes = trainer.get("numNodes", 1)
    launcher = next((one for one in spec["replicatedJobs"] if one["name"] == "launcher"), None)
    works = runtime is not None and runtime["spec"]["mlPolicy"].get("mpi", {}).get("runLauncherAsNode", False)
    for replicated in spec["replicatedJobs"]:
        is_node = replicated["name"] == "node"
        if is_node or (replicated is launcher and works):
            container = replicated["template"]["spec"]["template"]["spec"]["containers"][0]
            container["resources"] = trainer.get("resourcesPerNode", container.get("resources", {}))
        count = nodes - 1 if is_node and launcher is not None and works else nodes if is_node else 1
        replicated["template"]["spec"] |= {"parallelism": count, "completions": count}
    jobset = create(_child(job, "jobset.x-k8s.io/v1alpha2", "JobSet", job["metadata"]["name"], labels, spec))
    expected = {}
    rank = 1 if launcher is not None and works else 0
    for pod, seat in _jobset(jobset, create).items():
        if seat.role == "node":
            expected[pod] = Expected("trainer" if launcher is None else "node", seat.group, rank)
            rank += 1
        else:
            expected[pod] = seat._replace(rank=0 if seat.role == "launcher" and works else None)
    return expected


def _training_v1(job: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    name = job["metadata"]["name"]
    prefix = {"PyTorchJob": "pytorch", "TFJob": "tf", "PaddleJob": "paddle"}[job["kind"]]
    expected = {}
    rank = 0
    for replica, spec in sorted(job["spec"][f"{prefix}ReplicaSpecs"].items()):  # Master before Worker
        for index in range(spec.get("replicas", 1)):
            labels = {
                "training.kubeflow.org/job-name": name,
                "training.kubeflow.org/operator-name": f"{job['kind'].lower()}-controller",
                "training.kubeflow.org/replica-type": replica.lower(),
                "training.kubeflow.org/replica-index": str(index),
            }
            if replica == "Master":
                labels["training.kubeflow.org/job-role"] = "master"
            pod = f"{name}-{replica.lower()}-{index}"
            create(_pod(job, pod, labels, spec["template"]))
            expected[pod] = Expected(replica.lower(), rank=rank)
            rank += 1
    return expected


def _mpijob(job: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    name = job["metadata"]["name"]
    works = job["spec"].get("runLauncherAsWorker", False)
    labels = {
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/operator-name": "mpi-operator",
    }
    replicas = job["spec"]["mpiReplicaSpecs"]
    expected = {}
    for index in range(replicas["Worker"]["replicas"]):
        number = index + 1 if works else index
        marks = {
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": str(number),
        }
        pod = f"{name}-worker-{index}"
        create(_pod(job, pod, {**labels, **marks}, replicas["Worker"]["template"]))
        expected[pod] = Expected("worker", rank=number)
    template = copy.deepcopy(replicas["Launcher"]["template"])
    launcher = create(
        _child(job, "batch/v1", "Job", f"{name}-launcher", {"app": name}, {"template": template})
    )
    marks = {"training.kubeflow.org/job-role": "launcher"}
    if works:
        marks["training.kubeflow.org/replica-index"] = "0"
    for pod in _batch_pods(launcher, create, {**labels, **marks}, indexed=False):
        expected[pod] = Expected("launcher", rank=0 if works else None)
    return expected


def _ray_pods(
    cluster: Manifest, create: Callable[[Manifest], Manifest], spec: Manifest
) -> dict[str, Expected]:
    name = cluster["metadata"]["name"]
    labels = {"ray.io/cluster": name, "ray.io/is-ray-node": "yes", "ray.io/identifier": f"{name}-head"}
    head = f"{name}-head-x1"
    marks = {**labels, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    create(_pod(cluster, head, marks, spec["headGroupSpec"]["template"]))
    expected = {head: Expected("head", rank=0)}
    for group in spec.get("workerGroupSpecs", ()):
        for index in range(group.get("replicas", 1)):
            pod = f"{name}-{group['groupName']}-worker-x{index}"
            marks = {**labels, "ray.io/node-type": "worker", "ray.io/group": group["groupName"]}
            create(_pod(cluster, pod, marks, group["template"]))
            expected[pod] = Expected("worker")
    return expected


def _raycluster(cluster: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    return _ray_pods(cluster, create, cluster["spec"])


def _owned_raycluster(
    owner: Manifest, create: Callable[[Manifest], Manifest], spec: Manifest
) -> dict[str, Expected]:
    labels = {
        "ray.io/originated-from-cr-name": owner["metadata"]["name"],
        "ray.io/originated-from-crd": owner["kind"],
    }
    name = f"{owner['metadata']['name']}-7k2p9"
    cluster = create(_child(owner, "ray.io/v1", "RayCluster", name, labels, spec))
    return _ray_pods(cluster, create, spec)


def _rayjob(job: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    expected = _owned_raycluster(job, create, job["spec"]["rayClusterSpec"])
    name = job["metadata"]["name"]
    labels = {"ray.io/originated-from-cr-name": name, "ray.io/originated-from-crd": "RayJob"}
    template = {"spec": {"containers": [{"name": "ray-job-submitter", "image": "rayproject/ray"}]}}
    submitter = create(_child(job, "batch/v1", "Job", name, labels, {"template": template}))
    for pod in _batch_pods(submitter, create, {}, indexed=False):
        expected[pod] = Expected("submitter")
    return expected


def _rayservice(service: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    return _owned_raycluster(service, create, service["spec"]["rayClusterConfig"])


def _leaderworkerset(lws: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    name = lws["metadata"]["name"]
    prefix = "leaderworkerset.sigs.k8s.io/"
    template = lws["spec"]["leaderWorkerTemplate"]
    leaders = create(_child(lws, "apps/v1", "StatefulSet", name, {prefix + "name": name}))
    expected = {}
    for group in range(lws["spec"].get("replicas", 1)):
        labels = {prefix + "name": name, prefix + "group-index": str(group)}
        leader_name = f"{name}-{group}"
        leader = create(
            _pod(
                leaders,
                leader_name,
                {**labels, prefix + "worker-index": "0"},
                template.get("leaderTemplate", template["workerTemplate"]),
            )
        )
        expected[leader_name] = Expected("leader", group, 0)
        workers = create(_child(leader, "apps/v1", "StatefulSet", leader_name, labels))
        for index in range(1, template["size"]):
            pod = f"{leader_name}-{index}"
            marks = {**labels, prefix + "worker-index": str(index)}
            annotations = {prefix + "leader-name": leader_name}
            create(_pod(workers, pod, marks, template["workerTemplate"], annotations))
            expected[pod] = Expected("worker", group, index)
    return expected


def _replicas(
    deployment: Manifest, create: Callable[[Manifest], Manifest], labels: dict[str, str], count: int
) -> list[str]:
    name = deployment["metadata"]["name"]
    labels = {**labels, "pod-template-hash": "6d4b9c7f5"}
    replicas = create(_child(deployment, "apps/v1", "ReplicaSet", f"{name}-6d4b9c7f5", labels))
    pods = []
    for index in range(count):
        pods.append(f"{name}-6d4b9c7f5-x{index}")
        create(_pod(replicas, pods[-1], labels, deployment["spec"]["template"]))
    return pods


def _deployment(deployment: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    return {pod: Expected() for pod in _replicas(deployment, create, labels, deployment["spec"]["replicas"])}


def _inference_service(service: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    """Serverless where the manifest speaks to Knative's autoscaler, else a plain Deployment."""
    name = service["metadata"]["name"]
    (runtime,) = service["spec"]["predictor"].values()
    container = {"name": "kserve-container", "resources": runtime.get("resources", {})}
    spec = {"template": {"spec": {"containers": [container]}}}
    labels = {"serving.kserve.io/inferenceservice": name, "component": "predictor"}
    owner = service
    deployment_name = f"{name}-predictor"
    if any(key.startswith("autoscaling.knative.dev/") for key in service["metadata"].get("annotations", {})):
        labels["serving.knative.dev/service"] = deployment_name
        for kind in ("Service", "Configuration", "Revision"):
            child = deployment_name + ("-00001" if kind == "Revision" else "")
            owner = create(_child(owner, "serving.knative.dev/v1", kind, child, labels))
        deployment_name += "-00001-deployment"
    deployment = create(_child(owner, "apps/v1", "Deployment", deployment_name, labels, spec))
    return {pod: Expected("predictor") for pod in _replicas(deployment, create, labels, 1)}


def _llm_inference_service(service: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    name = service["metadata"]["name"]
    common = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "llminferenceservice"}
    spec = service["spec"]
    expected: dict[str, Expected] = {}

    def deploy(suffix: str, component: str, role: str | None, pod_spec: Manifest, replicas: int) -> None:
        labels = {**common, "app.kubernetes.io/component": f"llminferenceservice-{component}"}
        if role is not None:
            labels |= {"llm-d.ai/role": role, "kserve.io/component": "workload"}
        template = {"template": {"spec": pod_spec}}
        deployment = create(_child(service, "apps/v1", "Deployment", name + suffix, labels, template))
        for pod in _replicas(deployment, create, labels, replicas):
            expected[pod] = Expected(role if role is not None else component)

    role = "decode" if "prefill" in spec else "both"
    if "worker" in spec:
        size = spec["parallelism"]["data"] // spec["parallelism"]["dataLocal"]
        leader = {**common, "app.kubernetes.io/component": "llminferenceservice-workload-leader"}
        worker = {**common, "app.kubernetes.io/component": "llminferenceservice-workload-worker"}
        lws_spec = {
            "replicas": spec["replicas"],
            "leaderWorkerTemplate": {
                "size": size,
                "leaderTemplate": {
                    "metadata": {"labels": {**leader, "llm-d.ai/role": role}},
                    "spec": spec["template"],
                },
                "workerTemplate": {"metadata": {"labels": worker}, "spec": spec["worker"]},
            },
        }
        lws = create(
            _child(
                service,
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                f"{name}-kserve-mn",
                worker,
                lws_spec,
            )
        )
        for pod, seat in _leaderworkerset(lws, create).items():
            expected[pod] = seat._replace(role=role if seat.role == "leader" else "decode")
    else:
        deploy("-kserve", "workload", role, spec["template"], spec["replicas"])
    if "prefill" in spec:
        prefill = spec["prefill"]
        deploy("-kserve-prefill", "workload-prefill", "prefill", prefill["template"], prefill["replicas"])
    scheduler = {"containers": [{"name": "main", "image": "scheduler"}]}
    deploy("-kserve-router-scheduler", "router-scheduler", None, scheduler, 1)
    return expected


def _volcano_job(job: Manifest, create: Callable[[Manifest], Manifest]) -> dict[str, Expected]:
    name = job["metadata"]["name"]
    expected = {}
    rank = 0
    for task in job["spec"]["tasks"]:
        for index in range(task["replicas"]):
            labels = {
                "volcano.sh/job-name": name,
                "volcano.sh/job-namespace": job["metadata"]["namespace"],
                "volcano.sh/queue-name": job["spec"].get("queue", "default"),
                "volcano.sh/task-spec": task["name"],
                "volcano.sh/task-index": str(index),
            }
            annotations = {"volcano.sh/job-retry-count": "0", "volcano.sh/job-version": "0"}
            pod = f"{name}-{task['name']}-{index}"
            create(_pod(job, pod, labels, task["template"], annotations))
            expected[pod] = Expected(task["name"], rank=rank)
            rank += 1
    return expected
