"""The traps: each a pod that a simpler rule would put into the wrong workload, or none."""

from __future__ import annotations

import copy

import pytest
from memberships import codes, workload
from small_jobs import GPU, NO_GPU, PYTORCHJOB, make, make_pod

from kube_objects import (
    KeptIntervals,
    MadeObjects,
    Manifest,
    at,
    at_ms,
    owned_by,
    resolved,
    resolver,
)
from operators_at_work import put_to_work
from trilens.model.kubernetes import GroupKind
from trilens.resolve.resolver import ClusterResolver
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

# Group and kind


def test_volcanos_job_is_not_batchs() -> None:
    made = MadeObjects()
    volcano = make(
        made, "batch.volcano.sh/v1alpha1", "Job", "same", spec={"tasks": [{"name": "w", "replicas": 2}]}
    )
    batch = make(made, "batch/v1", "Job", "same", spec={"parallelism": 1})
    make_pod(made, "same-w-1", volcano, {"volcano.sh/job-name": "same", "volcano.sh/task-spec": "w"})
    make_pod(made, "same-x", batch)
    members = resolved(made.objects())
    assert workload(members["same-w-1"]) == ("batch.volcano.sh", "Job", "same")
    assert workload(members["same-x"]) == ("batch", "Job", "same")
    assert members["same-w-1"].node_rank == 1, "from the pod's name, where the label is missing"


def test_a_reference_to_a_uid_of_another_kind_is_not_followed() -> None:
    made = MadeObjects()
    job = make(made, "batch/v1", "Job", "a", spec={})
    pod = make_pod(made, "a-x", job)
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    member = resolved(made.objects())["a-x"]
    assert workload(member) == ("batch.volcano.sh", "Job", "a")
    assert codes(member) == ["owner-gone"]


def test_the_old_group_of_deployments_is_the_new_one() -> None:
    made = MadeObjects()
    deployment = make(made, "apps/v1", "Deployment", "web", spec={})
    replicas = make(made, "apps/v1", "ReplicaSet", "web-1", deployment)
    pod = make_pod(made, "web-1-x", replicas)
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = "extensions/v1beta1"
    assert workload(resolved(made.objects())["web-1-x"]) == ("apps", "Deployment", "web")


# Uid


def test_a_name_that_passes_on_is_another_workload() -> None:
    found = resolver()
    keys = []
    for life in ("first", "second"):
        made = MadeObjects()
        job = make(made, "batch/v1", "Job", "train", spec={}, meta={"uid": f"job-{life}"})
        make_pod(made, f"train-{life}", job, uid=f"pod-{life}")
        members = resolved(made.objects(), found)
        keys.append(members[f"train-{life}"].workload)
    assert keys[0] != keys[1]
    assert keys[0][:-1] == keys[1][:-1]


# Walking up


def test_owners_that_mean_many_jobs_are_not_the_workload() -> None:
    made = MadeObjects()
    cron = make(made, "batch/v1", "CronJob", "nightly")
    job = make(made, "batch/v1", "Job", "nightly-1", cron, spec={})
    make_pod(made, "nightly-1-x", job)
    experiment = make(made, "kubeflow.org/v1beta1", "Experiment", "sweep")
    trial = make(made, "kubeflow.org/v1beta1", "Trial", "sweep-1", experiment)
    training = make(made, "kubeflow.org/v1", "PyTorchJob", "sweep-1", trial, spec={})
    make_pod(made, "sweep-1-worker-0", training, {"katib.kubeflow.org/experiment": "sweep"})
    found = resolver()
    members = resolved(made.objects(), found)
    assert workload(members["nightly-1-x"]) == ("batch", "Job", "nightly-1")
    assert workload(members["sweep-1-worker-0"]) == ("kubeflow.org", "PyTorchJob", "sweep-1")
    assert found.workloads()[members["sweep-1-worker-0"].workload].experiment == "sweep"
    assert [codes(member) for member in members.values()] == [[], []]


def test_a_pipeline_run_is_above_the_job_of_its_step() -> None:
    made = MadeObjects()
    run = make(
        made,
        "argoproj.io/v1alpha1",
        "Workflow",
        "run-x7k",
        status={
            "phase": "Running",
            "nodes": {
                "run-x7k": {"type": "DAG", "displayName": "run-x7k", "phase": "Running"},
                "run-x7k-1": {
                    "type": "Pod",
                    "displayName": "prepare",
                    "phase": "Succeeded",
                    "startedAt": at(0),
                    "finishedAt": at(60),
                },
                "run-x7k-2": {"type": "Pod", "displayName": "train", "phase": "Running", "startedAt": at(61)},
                "run-x7k-3": {"type": "Skipped", "displayName": "report", "phase": "Skipped"},
            },
        },
    )
    labels = {"workflows.argoproj.io/workflow": "run-x7k"}
    make_pod(
        made, "run-x7k-1", run, labels, annotations={"workflows.argoproj.io/node-name": "run-x7k.prepare"}
    )
    work = copy.deepcopy(PYTORCHJOB)
    work["metadata"]["ownerReferences"] = [owned_by(run)]
    put_to_work(work, made.create)
    found = resolver()
    members = resolved(made.objects(), found)
    assert {workload(member) for member in members.values()} == {("argoproj.io", "Workflow", "run-x7k")}
    assert members["run-x7k-1"].role == "prepare"
    assert (members["llm-worker-1"].role, members["llm-worker-1"].node_rank) == ("worker", 2)
    (record,) = found.workloads().values()
    assert [(step.name, step.state, step.pod) for step in record.steps] == [
        ("prepare", "Succeeded", "run-x7k-1"),
        ("train", "Running", "run-x7k-2"),
        ("report", "Skipped", None),
    ]
    assert record.steps[0].finished_ms == at_ms(60)


def test_a_notebook_is_above_its_statefulset() -> None:
    made = MadeObjects()
    notebook = make(made, "kubeflow.org/v1", "Notebook", "nb")
    stateful = make(made, "apps/v1", "StatefulSet", "nb", notebook)
    make_pod(made, "nb-0", stateful, {"notebook-name": "nb"})
    member = resolved(made.objects())["nb-0"]
    assert (workload(member), member.node_rank) == (("kubeflow.org", "Notebook", "nb"), 0)
    unwatched = ClusterResolver("test", OwnershipSettings(), TopologySettings(), KeptIntervals())
    for kind in (GroupKind("", "Pod"), GroupKind("apps", "StatefulSet")):
        unwatched.synced(kind)
    member = resolved(made.objects()[1:], unwatched)["nb-0"]
    assert (workload(member), codes(member)) == (("kubeflow.org", "Notebook", "nb"), [])


def test_a_kind_that_is_not_watched_leaves_the_doubt_what_is_above_it() -> None:
    made = MadeObjects()
    jobset = make(made, "jobset.x-k8s.io/v1alpha2", "JobSet", "js")
    job = make(made, "batch/v1", "Job", "js-w-0", jobset)
    make_pod(made, "js-w-0-0", job)
    unwatched = ClusterResolver("test", OwnershipSettings(), TopologySettings(), KeptIntervals())
    unwatched.synced(GroupKind("", "Pod"))
    member = resolved(made.objects()[1:], unwatched)["js-w-0-0"]
    assert (workload(member), codes(member)) == (("jobset.x-k8s.io", "JobSet", "js"), ["owner-unread"])


def test_an_unknown_operator_gives_a_workload_and_a_doubt() -> None:
    made = MadeObjects()
    foreign = make(made, "ml.acme.io/v1", "Training", "big")
    deployment = make(made, "apps/v1", "Deployment", "big-workers", foreign)
    replicas = make(made, "apps/v1", "ReplicaSet", "big-workers-1", deployment)
    make_pod(made, "big-workers-1-x", replicas)
    read = resolved(made.objects())["big-workers-1-x"]
    unread = resolved([obj for obj in made.objects() if obj.kind != "Training"])["big-workers-1-x"]
    assert workload(read) == workload(unread) == ("ml.acme.io", "Training", "big")
    assert read.workload == unread.workload
    assert codes(read) == codes(unread) == ["unknown-operator"]


# What is no workload


def test_what_is_no_workload_says_why() -> None:
    made = MadeObjects()
    exporter = make(made, "apps/v1", "DaemonSet", "dcgm-exporter")
    make_pod(made, "dcgm-exporter-1", exporter, spec=NO_GPU)
    dns = make(made, "apps/v1", "Deployment", "coredns", meta={"namespace": "kube-system"})
    replicas = make(made, "apps/v1", "ReplicaSet", "coredns-1", dns, meta={"namespace": "kube-system"})
    make_pod(made, "coredns-1-x", replicas, spec=NO_GPU, namespace="kube-system")
    node = make(made, "v1", "Node", "n1")
    make_pod(made, "etcd-n1", node, spec=NO_GPU, namespace="default")
    make_pod(made, "reservation-1", spec=GPU, namespace="kai-resource-reservation")
    make(made, "batch/v1", "Job", "install-addon", meta={"namespace": "kube-system"}, spec={})
    found = resolver()
    assert resolved(made.objects(), found) == {}
    assert {key.name: why for key, why in found.no_workload.items()} == {
        "dcgm-exporter-1": "DaemonSet dcgm-exporter asks for no GPU",
        "coredns-1-x": "namespace kube-system holds parts of the cluster itself, and it asks for no GPU",
        "etcd-n1": "it is a static pod of node n1 and asks for no GPU",
        "reservation-1": "it holds a GPU that other pods share by fractions: they are the workloads",
    }
    assert found.workloads() == {}


def test_none_of_a_gpu_is_none() -> None:
    made = MadeObjects()
    owner = make(made, "apps/v1", "DaemonSet", "agent")
    make_pod(
        made, "agent-1", owner, spec={"containers": [{"resources": {"limits": {"nvidia.com/gpu": "0"}}}]}
    )
    assert resolved(made.objects()) == {}


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, {}),
        ({"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]}, {}),
        ({"containers": [{"name": "c", "resources": {"limits": {"amd.com/gpu": "1"}}}]}, {}),
        ({"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu"}]}, {}),
        ({"containers": [{"name": "c"}]}, {"gpu-fraction": "0.5"}),
        ({"containers": [{"name": "c"}]}, {"gpu-memory": "2000"}),
    ],
)
def test_a_daemonset_with_a_gpu_is_a_workload(spec: Manifest, annotations: dict[str, str]) -> None:
    made = MadeObjects()
    owner = make(made, "apps/v1", "DaemonSet", "burn", meta={"namespace": "kube-system"})
    make_pod(made, "burn-1", owner, spec=spec, annotations=annotations, namespace="kube-system")
    assert workload(resolved(made.objects())["burn-1"]) == ("apps", "DaemonSet", "burn")
