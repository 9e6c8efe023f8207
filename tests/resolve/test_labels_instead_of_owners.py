"""Labels tell the workload where owners cannot be read, or where there are none."""

from __future__ import annotations

from memberships import codes, workload
from small_jobs import JOBSET, MPIJOB, make, make_pod

from kube_objects import (
    KeptIntervals,
    MadeObjects,
    owned_by,
    resolved,
    resolver,
    to_object,
)
from operators_at_work import put_to_work
from trilens.model.kubernetes import GroupKind
from trilens.resolve.resolver import ClusterResolver
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

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
