"""The traps: each a pod that a simpler rule would put into the wrong workload, or none."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from small_jobs import GPU, JOBSET, MPIJOB, NO_GPU, PYTORCHJOB, RAYJOB, make, make_pod

from kube_objects import (
    KeptIntervals,
    MadeObjects,
    Manifest,
    at,
    at_ms,
    owned_by,
    resolved,
    resolver,
    to_object,
)
from operators_at_work import Expected, put_to_work
from trilens.model.kubernetes import GroupKind
from trilens.resolve.resolver import ClusterResolver
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from trilens.model.workload import Membership


def codes(member: Membership) -> list[str]:
    return [doubt.code for doubt in member.doubts]


def workload(member: Membership) -> tuple[str, str, str]:
    return member.workload.group, member.workload.kind, member.workload.name


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


# Ranks


@pytest.mark.parametrize("shifted", [True, False], ids=["newer labels", "older labels"])
def test_an_mpi_launcher_that_works_is_rank_0(shifted: bool) -> None:
    made = MadeObjects()
    work = copy.deepcopy(MPIJOB)
    work["spec"]["runLauncherAsWorker"] = True
    expected = put_to_work(work, made.create)
    assert expected is not None
    if not shifted:
        for manifest in made.manifests:
            labels = manifest["metadata"].get("labels", {})
            if labels.get("training.kubeflow.org/job-role") == "worker":
                labels["training.kubeflow.org/replica-index"] = manifest["metadata"]["name"][-1]
    members = resolved(made.objects())
    assert members["pi-launcher-x0"].node_rank == 0
    assert [members[f"pi-worker-{index}"].node_rank for index in (0, 1)] == [1, 2]


def test_an_mpi_launcher_that_only_starts_has_no_rank() -> None:
    made = MadeObjects()
    put_to_work(MPIJOB, made.create)
    members = resolved(made.objects())
    assert members["pi-launcher-x0"].node_rank is None
    assert [members[f"pi-worker-{index}"].node_rank for index in (0, 1)] == [0, 1]


@pytest.mark.parametrize("works", [True, False])
def test_a_trainjobs_launcher_counts_where_it_works(works: bool) -> None:
    job_template = {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}
    runtime = {
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "mpi"},
        "spec": {
            "mlPolicy": {"mpi": {"runLauncherAsNode": works}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {"name": "node", "template": copy.deepcopy(job_template)},
                        {"name": "launcher", "template": copy.deepcopy(job_template)},
                    ]
                }
            },
        },
    }
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "ds"},
        "spec": {
            "runtimeRef": {"name": "mpi"},
            "trainer": {"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}},
        },
    }
    made = MadeObjects()
    work = put_to_work(job, made.create, [runtime])
    assert work is not None
    members = resolved(made.objects())
    found = {name: Expected(one.role, one.group, one.node_rank) for name, one in members.items()}
    assert found == work.members
    ranks = sorted(one.node_rank for one in members.values() if one.node_rank is not None)
    assert ranks == [0, 1, 2]


def test_ranks_of_a_jobset_run_over_all_its_jobs() -> None:
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    members = resolved(made.objects())
    by_rank = sorted((one.node_rank, one.role, one.group) for one in members.values())
    assert by_rank == [
        (0, "driver", 0),
        (1, "workers", 1),
        (2, "workers", 1),
        (3, "workers", 2),
        (4, "workers", 2),
    ]


def test_replicas_of_an_earlier_job_all_stand_before_a_later_one() -> None:
    made = MadeObjects()
    work = copy.deepcopy(JOBSET)
    work["spec"]["replicatedJobs"].reverse()
    expected = put_to_work(work, made.create)
    assert expected is not None
    members = resolved(made.objects())
    assert {name: one.node_rank for name, one in members.items()} == {
        name: one.rank for name, one in expected.members.items()
    }
    assert next(one.node_rank for one in members.values() if one.role == "driver") == 4


def test_a_rank_that_cannot_be_known_is_not_made_up() -> None:
    """The JobSet is not readable: how many pods stand before the second Job nobody can say."""
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    found = resolver()
    found.refused(GroupKind("jobset.x-k8s.io", "JobSet"), "grant list on jobsets")
    members = resolved([obj for obj in made.objects() if obj.kind != "JobSet"], found)
    ranks = {one.group: one.node_rank for one in members.values()}
    assert ranks == {0: 0, 1: None, 2: None}


def test_tensorflow_parameter_servers_have_no_rank() -> None:
    made = MadeObjects()
    specs = {name: {"replicas": 2, "template": {"spec": GPU}} for name in ("Chief", "PS", "Worker")}
    job = make(made, "kubeflow.org/v1", "TFJob", "tf", spec={"tfReplicaSpecs": specs})
    for role, index in (("chief", 1), ("ps", 1), ("worker", 1)):
        labels = {"replica-type": role, "replica-index": str(index), "tf-job-name": "tf"}
        make_pod(made, f"tf-{role}-{index}", job, labels)
    members = resolved(made.objects())
    assert {name: one.node_rank for name, one in members.items()} == {
        "tf-chief-1": 1,
        "tf-ps-1": None,
        "tf-worker-1": 3,
    }


def test_hosts_of_a_ray_replica_have_a_place_in_it() -> None:
    made = MadeObjects()
    cluster = make(made, "ray.io/v1", "RayCluster", "slice")
    labels = {
        "ray.io/cluster": "slice",
        "ray.io/node-type": "worker",
        "ray.io/worker-group-replica-index": "1",
        "ray.io/replica-host-index": "3",
    }
    make_pod(made, "slice-worker-a", cluster, labels)
    member = resolved(made.objects())["slice-worker-a"]
    assert (member.role, member.group, member.node_rank) == ("worker", 1, 3)


@pytest.mark.parametrize("index", ["", "-1", "x", "1.5", "٣"])
def test_an_index_that_is_no_number_is_unknown(index: str) -> None:
    made = MadeObjects()
    job = make(made, "batch/v1", "Job", "j", spec={"parallelism": 2})
    make_pod(made, "j-x", job, {"batch.kubernetes.io/job-completion-index": index})
    assert resolved(made.objects())["j-x"].node_rank is None


# Attempts


def test_a_jobset_numbers_its_own_restarts() -> None:
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    for manifest in made.manifests:
        for marks in (manifest["metadata"].get("labels", {}), manifest["metadata"].get("annotations", {})):
            if "jobset.sigs.k8s.io/restart-attempt" in marks:
                marks["jobset.sigs.k8s.io/restart-attempt"] = "2"
    pod = next(one for one in made.manifests if one["kind"] == "Pod")
    pod["metadata"]["annotations"]["jobset.sigs.k8s.io/in-place-restart-attempt"] = "1"
    members = resolved(made.objects())
    attempts = {name: one.attempt for name, one in members.items()}
    assert attempts.pop(pod["metadata"]["name"]) == 3
    assert set(attempts.values()) == {2}


def test_volcano_numbers_its_own_retries() -> None:
    made = MadeObjects()
    job = make(made, "batch.volcano.sh/v1alpha1", "Job", "v", spec={"tasks": [{"name": "w", "replicas": 1}]})
    make_pod(
        made, "v-w-0", job, {"volcano.sh/task-spec": "w"}, annotations={"volcano.sh/job-retry-count": "4"}
    )
    assert resolved(made.objects())["v-w-0"].attempt == 4


def test_a_replaced_pod_belongs_to_the_next_attempt() -> None:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    found = resolver()
    resolved(made.objects(), found)
    old = next(one for one in made.objects() if one.name == "llm-worker-1")
    found.removed(old)
    members = resolved([replace(old, uid="new", created_ms=old.created_ms + 60_000)], found)
    assert {name: one.attempt for name, one in members.items()} == {
        "llm-master-0": 0,
        "llm-worker-0": 0,
        "llm-worker-1": 1,
    }
    (record,) = found.workloads().values()
    assert record.attempt == 1


def test_pods_of_one_index_that_failed_before_count() -> None:
    """Job's failed pods stay: they are seen together, in any order."""
    made = MadeObjects()
    job = make(made, "batch/v1", "Job", "j", spec={"parallelism": 2, "completionMode": "Indexed"})
    for number in (2, 0, 1):
        labels = {"batch.kubernetes.io/job-completion-index": "0"}
        make_pod(made, f"j-0-{number}", job, labels, creationTimestamp=at(number * 10))
    members = resolved(made.objects())
    assert {name: one.attempt for name, one in members.items()} == {"j-0-0": 0, "j-0-1": 1, "j-0-2": 2}


def test_a_new_raycluster_is_a_new_attempt_of_its_rayjob() -> None:
    made = MadeObjects()
    put_to_work(RAYJOB, made.create)
    second = MadeObjects()
    job = made.manifests[0]
    cluster = make(second, "ray.io/v1", "RayCluster", "tune-9x9x9", job, meta={"creationTimestamp": at(600)})
    labels = {"ray.io/cluster": "tune-9x9x9", "ray.io/node-type": "head"}
    make_pod(second, "tune-9x9x9-head", cluster, labels, creationTimestamp=at(601))
    worker = {**labels, "ray.io/node-type": "worker"}
    make_pod(second, "tune-9x9x9-worker", cluster, worker, creationTimestamp=at(601))
    members = resolved([*second.objects(), *made.objects()])
    assert {name: one.attempt for name, one in members.items() if one.role != "submitter"} == {
        "tune-9x9x9-head": 1,
        "tune-9x9x9-worker": 1,
        "tune-7k2p9-head-x1": 0,
        "tune-7k2p9-gpu-worker-x0": 0,
        "tune-7k2p9-gpu-worker-x1": 0,
    }
    assert len({one.workload for one in members.values()}) == 1


def test_a_seat_that_was_a_mistake_does_not_count() -> None:
    """Until the MPIJob is read, nobody knows that its launcher works and every worker sits one further."""
    made = MadeObjects()
    work = copy.deepcopy(MPIJOB)
    work["spec"]["runLauncherAsWorker"] = True
    put_to_work(work, made.create)
    for manifest in made.manifests:
        labels = manifest["metadata"].get("labels", {})
        if labels.get("training.kubeflow.org/job-role") == "worker":
            labels["training.kubeflow.org/replica-index"] = manifest["metadata"]["name"][-1]
            if manifest["metadata"]["name"] == "pi-worker-1":
                manifest["metadata"]["creationTimestamp"] = at(-60)
    found = resolver()
    found.refused(GroupKind("kubeflow.org", "MPIJob"), "grant")
    resolved(made.objects()[1:], found)
    found.synced(GroupKind("kubeflow.org", "MPIJob"))
    members = resolved(made.objects()[:1], found)
    assert [members[f"pi-worker-{index}"].node_rank for index in (0, 1)] == [1, 2]
    assert {one.attempt for one in members.values()} == {0}


def test_allocations_are_the_lives_of_a_determined_task() -> None:
    made = MadeObjects()
    for number in (0, 1):
        job = make(made, "batch/v1", "Job", f"det-{number}", spec={})
        labels = {
            "determined.ai/task_id": "17.abc",
            "determined.ai/task_type": "TRIAL",
            "determined.ai/experiment_id": "17",
            "determined": f"17.abc.{number}",
        }
        make_pod(made, f"det-{number}-x", job, labels)
    found = resolver()
    members = resolved(made.objects(), found)
    assert {workload(one) for one in members.values()} == {("determined.ai", "Task", "17.abc")}
    assert [members[f"det-{number}-x"].attempt for number in (0, 1)] == [0, 1]
    (record,) = found.workloads().values()
    assert record.experiment == "17"


# Labels where owners cannot be read


def test_a_jobset_is_found_by_labels_when_jobs_may_not_be_read() -> None:
    made = MadeObjects()
    work = put_to_work(JOBSET, made.create)
    assert work is not None
    found = resolver()
    found.refused(GroupKind("batch", "Job"), "grant list and watch on jobs.batch")
    members = resolved([obj for obj in made.objects() if obj.kind != "Job"], found)
    (key,) = {one.workload for one in members.values()}
    assert (key.kind, key.name, key.uid) == ("JobSet", "train", made.manifests[0]["metadata"]["uid"])
    member = members[next(iter(work.members))]
    assert codes(member) == ["owner-unreadable", "from-labels"]
    assert member.doubts[0].remedy == "grant list and watch on jobs.batch"
    (record,) = found.workloads().values()
    assert [(doubt.code, doubt.remedy) for doubt in record.doubts] == [
        ("from-labels", None),
        ("owner-unreadable", "grant list and watch on jobs.batch"),
    ]
    assert record.doubts[1].text.endswith("; and 2 more of the sort"), "three Jobs, one doubt"


def test_a_launcher_joins_its_workers_even_when_nothing_but_pods_can_be_read() -> None:
    made = MadeObjects()
    put_to_work(MPIJOB, made.create)
    found = resolver()
    for kind in (GroupKind("batch", "Job"), GroupKind("kubeflow.org", "MPIJob")):
        found.refused(kind, f"grant {kind}")
    members = resolved([obj for obj in made.objects() if obj.kind == "Pod"], found)
    assert len({one.workload for one in members.values()}) == 1
    assert members["pi-launcher-x0"].role == "launcher"


def test_a_deployment_is_found_by_the_hash_when_its_replicaset_may_not_be_read() -> None:
    made = MadeObjects()
    deployment = make(made, "apps/v1", "Deployment", "web", spec={})
    replicas = make(made, "apps/v1", "ReplicaSet", "web-6d4b", deployment)
    make_pod(made, "web-6d4b-x", replicas, {"pod-template-hash": "6d4b"})
    found = resolver()
    found.refused(GroupKind("apps", "ReplicaSet"), "grant")
    member = resolved([obj for obj in made.objects() if obj.kind != "ReplicaSet"], found)["web-6d4b-x"]
    assert member.workload.uid == deployment["metadata"]["uid"]
    assert codes(member) == ["owner-unreadable", "from-labels"]


def test_without_any_owner_to_be_read_the_name_has_to_do() -> None:
    made = MadeObjects()
    labels = {
        "ray.io/cluster": "c",
        "ray.io/originated-from-cr-name": "j",
        "ray.io/originated-from-crd": "RayJob",
    }
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c", "uid": "c-uid"}}
    make_pod(made, "c-head", cluster, labels)
    found = resolver()
    for kind in ("RayCluster", "RayJob"):
        found.refused(GroupKind("ray.io", kind), f"grant {kind}")
    member = resolved(made.objects(), found)["c-head"]
    assert member.workload[2:] == ("ray.io", "RayJob", "j", "")
    assert codes(member) == ["owner-unreadable", "from-labels", "uid-unknown"]
    late = make(made, "ray.io/v1", "RayJob", "j")
    assert resolved([to_object(late)], found)["c-head"].workload.uid == late["metadata"]["uid"]


def test_a_permission_that_is_granted_later_takes_the_doubt_away() -> None:
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    found = resolver()
    found.refused(GroupKind("batch", "Job"), "grant")
    members = resolved([obj for obj in made.objects() if obj.kind != "Job"], found)
    assert all(codes(one) for one in members.values())
    found.synced(GroupKind("batch", "Job"))
    members = resolved([], found)
    assert {tuple(codes(one)) for one in members.values()} == {("owner-gone", "from-labels")}
    members = resolved([obj for obj in made.objects() if obj.kind == "Job"], found)
    assert not any(codes(one) for one in members.values())


# Labels alone


def test_plain_pods_of_a_kueue_group_are_one_workload() -> None:
    made = MadeObjects()
    labels = {"kueue.x-k8s.io/pod-group-name": "group", "kueue.x-k8s.io/queue-name": "q"}
    for index in (0, 1):
        make_pod(made, f"p{index}", labels={**labels, "kueue.x-k8s.io/pod-group-pod-index": str(index)})
    make_pod(
        made,
        "p2",
        labels={**labels, "my": "2"},
        annotations={"kueue.x-k8s.io/pod-group-pod-index-label": "my"},
    )
    shadow = make(made, "kueue.x-k8s.io/v1beta1", "Workload", "group", spec={"queueName": "q"})
    shadow["metadata"]["ownerReferences"] = [owned_by(pod, controller=False) for pod in made.manifests[:3]]
    found = resolver()
    members = resolved(made.objects(), found)
    assert {one.workload.uid for one in members.values()} == {shadow["metadata"]["uid"]}
    assert [members[f"p{index}"].node_rank for index in (0, 1, 2)] == [0, 1, 2]
    (record,) = found.workloads().values()
    assert record.queue == "q"


def test_kais_own_group_of_one_pod_says_nothing_and_a_made_one_does() -> None:
    made = MadeObjects()
    make_pod(made, "alone", annotations={"pod-group-name": "pg-alone-1234"})
    for name in ("a", "b"):
        make_pod(
            made, name, labels={"kai.scheduler/subgroup-name": name}, annotations={"pod-group-name": "ours"}
        )
    members = resolved(made.objects())
    assert workload(members["alone"]) == ("", "Pod", "alone")
    assert workload(members["a"]) == workload(members["b"]) == ("scheduling.run.ai", "PodGroup", "ours")
    assert members["a"].role == "a"


def test_runai_by_its_labels() -> None:
    made = MadeObjects()
    make_pod(made, "a-0", labels={"workloadName": "a", "project": "vision", "runai/queue": "vision"})
    runai_job = {"apiVersion": "run.ai/v1", "kind": "RunaiJob", "metadata": {"name": "c", "uid": "c"}}
    make_pod(made, "c-0", runai_job, {"workloadName": "c", "project": "vision"})
    make_pod(made, "b-0", labels={"run.ai/workload-name": "b", "run.ai/workload-kind": "InferenceWorkload"})
    found = ClusterResolver("test", OwnershipSettings(), TopologySettings(), KeptIntervals())
    found.synced(GroupKind("", "Pod"))
    members = resolved(made.objects(), found)
    assert workload(members["c-0"]) == ("run.ai", "TrainingWorkload", "c")
    assert codes(members["c-0"]) == ["uid-unknown"]
    assert workload(members["a-0"]) == ("run.ai", "TrainingWorkload", "a")
    assert workload(members["b-0"]) == ("run.ai", "InferenceWorkload", "b")
    assert found.workloads()[members["a-0"].workload].team == "vision"


# Bad input


def test_an_owner_that_no_longer_exists() -> None:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    members = resolved([obj for obj in made.objects() if obj.kind == "Pod"])
    (key,) = {one.workload for one in members.values()}
    assert (key.kind, key.name, key.uid) == ("PyTorchJob", "llm", made.manifests[0]["metadata"]["uid"])
    assert {tuple(codes(one)) for one in members.values()} == {("owner-gone",)}


def test_an_owner_on_its_way_is_waited_for() -> None:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    job, *pods = made.objects()
    found = resolver()
    for pod in pods:
        found.changed(pod)
    found.settle(at_ms(1))
    assert found.memberships() == {}
    found.changed(job)
    found.settle(at_ms(2))
    assert {tuple(codes(one)) for one in found.memberships().values()} == {()}


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_of_owners(length: int) -> None:
    made = MadeObjects()
    ring = [
        make(made, "acme.io/v1", "Thing", f"t{number}", meta={"creationTimestamp": at(number)})
        for number in range(length)
    ]
    for number, thing in enumerate(ring):
        thing["metadata"]["ownerReferences"] = [owned_by(ring[(number + 1) % length])]
    for number, thing in enumerate(ring):
        make_pod(made, f"p{number}", thing)
    members = resolved(made.objects())
    assert {workload(one) for one in members.values()} == {("acme.io", "Thing", "t0")}, (
        "for every pod the same"
    )
    assert all("owner-cycle" in codes(one) for one in members.values())


def test_a_pod_that_owns_itself() -> None:
    made = MadeObjects()
    pod = make_pod(made, "p")
    pod["metadata"]["ownerReferences"] = [owned_by(pod)]
    member = resolved(made.objects())["p"]
    assert workload(member) == ("", "Pod", "p")
    assert codes(member) == ["owner-cycle"]


def test_labels_that_contradict_owners() -> None:
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    pod = made.manifests[-1]
    for marks in (pod["metadata"]["labels"], pod["metadata"]["annotations"]):
        marks["jobset.sigs.k8s.io/jobset-name"] = "another"
    member = resolved(made.objects())[pod["metadata"]["name"]]
    assert member.workload.name == "train"
    assert codes(member) == ["labels-contradict-owners"]
    assert "another" in member.doubts[0].text


def test_labels_of_an_operator_that_is_nowhere_among_the_owners() -> None:
    made = MadeObjects()
    deployment = make(made, "apps/v1", "Deployment", "web", spec={})
    replicas = make(made, "apps/v1", "ReplicaSet", "web-1", deployment)
    make_pod(made, "web-1-x", replicas, {"volcano.sh/job-name": "copied"})
    member = resolved(made.objects())["web-1-x"]
    assert workload(member) == ("apps", "Deployment", "web")
    assert codes(member) == ["labels-contradict-owners"]


def test_a_name_that_a_label_cannot_hold_is_no_contradiction() -> None:
    made = MadeObjects()
    long = "x" * 80
    lws = make(made, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", long)
    stateful = make(made, "apps/v1", "StatefulSet", long, lws)
    make_pod(made, "p-0", stateful, {"leaderworkerset.sigs.k8s.io/name": long[:63]})
    assert codes(resolved(made.objects())["p-0"]) == []


def test_an_unexpected_version_is_read_as_well_as_it_can_be() -> None:
    made = MadeObjects()
    work = copy.deepcopy(JOBSET)
    work["apiVersion"] = "jobset.x-k8s.io/v7"
    work["spec"]["replicatedJobs"] = {"not": "a list"}
    jobset = made.create(work)
    job = make(made, "batch/v1", "Job", "train-w-0", jobset, spec={"parallelism": 2})
    marks = {"jobset.sigs.k8s.io/jobset-name": "train", "batch.kubernetes.io/job-completion-index": "1"}
    make_pod(made, "train-w-0-1", job, marks)
    member = resolved(made.objects())["train-w-0-1"]
    assert (member.workload.kind, member.node_rank) == ("JobSet", None)
    assert codes(member) == ["unexpected-version"]


def test_a_body_of_the_wrong_shape_breaks_nothing() -> None:
    made = MadeObjects()
    for kind, api_version in (
        ("JobSet", "jobset.x-k8s.io/v1alpha2"),
        ("PyTorchJob", "kubeflow.org/v1"),
        ("Job", "batch.volcano.sh/v1alpha1"),
        ("RayJob", "ray.io/v1"),
        ("Workflow", "argoproj.io/v1alpha1"),
    ):
        for number, broken in enumerate((None, 7, "text", [1, None], {"state": 3, "conditions": {"a": 1}})):
            owner = make(made, api_version, kind, f"{kind.lower()}-{number}", spec=broken, status=broken)
            pod = make_pod(made, f"{kind.lower()}-{number}-pod", owner)
            pod["spec"], pod["status"] = broken, broken
    assert len(resolved(made.objects())) == 25


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
