"""Owners that are gone, in circles, or not what labels say: a workload all the same, with the doubt."""

from __future__ import annotations

import copy

import pytest
from memberships import codes, workload
from small_jobs import JOBSET, PYTORCHJOB, make, make_pod

from kube_objects import (
    MadeObjects,
    at,
    at_ms,
    owned_by,
    resolved,
    resolver,
)
from operators_at_work import put_to_work


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
