"""Which life of its workload a pod was made for."""

from __future__ import annotations

import copy
from dataclasses import replace

from memberships import workload
from small_jobs import JOBSET, MPIJOB, PYTORCHJOB, RAYJOB, make, make_pod
from story import Story, ended, job, pod

from kube_objects import (
    MadeObjects,
    at,
    resolved,
    resolver,
)
from operators_at_work import put_to_work
from trilens.model.kubernetes import GroupKind


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


def test_what_is_kept_of_pods_that_are_over_has_their_attempt() -> None:
    """A first look at a job that was retried finds its pods in the order of their names."""
    story = Story()
    owner = job(story)
    retry = ended(pod(story, owner, 0, created=30), 31, 60)
    first = ended(pod(story, owner, 0, created=0), 1, 29, code=1)
    story.at(100, owner, retry, first)
    kept = {one.membership.pod.name: one.membership.attempt for one in story.sink.memberships.values()}
    assert kept == {"train-0-0": 0, "train-0-30": 1}


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
