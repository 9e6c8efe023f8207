"""A pod's place among the pods of its workload."""

from __future__ import annotations

import copy

import pytest
from small_jobs import GPU, JOBSET, MPIJOB, make, make_pod

from kube_objects import (
    MadeObjects,
    resolved,
    resolver,
)
from operators_at_work import Expected, put_to_work
from trilens.model.kubernetes import GroupKind


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
