"""The life of a workload, as its objects tell it."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
from small_jobs import GPU, make, make_pod
from story import Story, condition, ended, event, job, now, pod, running, scheduled, unschedulable

from kube_objects import Manifest, at, at_ms, owned_by, to_object
from trilens.model.life import Phase
from trilens.resolve.phase_metrics import PHASE, PHASE_SECONDS, phase_metrics


def test_from_the_queue_to_the_end() -> None:
    story = Story()
    own = job(story, spec={"suspend": True})
    queued = make(story.made, "kueue.x-k8s.io/v1beta1", "Workload", "job-train")
    queued["metadata"]["ownerReferences"] = [owned_by(own)]
    queued["status"] = {
        "conditions": [
            condition("QuotaReserved", 0, "Pending", "False", "insufficient unused quota, 1 more needed")
        ]
    }
    assert now(story.at(1, own, queued)) == ("queued", "insufficient unused quota, 1 more needed")
    queued["status"] = {"conditions": [condition("QuotaReserved", 60), condition("Admitted", 61)]}
    own["spec"]["suspend"] = False
    assert now(story.at(62, own, queued)) == ("admitted", "no pods yet")
    pods = [unschedulable(pod(story, own, index, 63)) for index in (0, 1)]
    assert now(story.at(64, *pods))[0] == "scheduling"
    for one in pods:
        scheduled(one, 80)
    assert now(story.at(81, *pods)) == ("starting", "ContainerCreating")
    pulling = [event(story, one, "Pulling", 82, 'Pulling image "x"') for one in pods]
    assert now(story.at(83, *pulling)) == ("pulling", 'Pulling image "x"')
    pulled = [event(story, one, "Pulled", 120) for one in pods]
    assert now(story.at(121, *pulled))[0] == "starting"
    assert now(story.at(126, running(pods[0], 125, 80)))[0] == "starting", "one of two runs: the job does not"
    assert now(story.at(131, running(pods[1], 130, 80)))[0] == "running"
    for one in pods:
        ended(one, 130, 700)
    assert now(story.at(701, *pods))[0] == "running", "the Job has not said so yet"
    own["status"] = {"conditions": [condition("Complete", 702)]}
    assert now(story.at(703, own)) == ("succeeded", "Complete")
    assert story.told == [
        ("queued", 0),
        ("admitted", 61),
        ("scheduling", 63),
        ("starting", 80),
        ("pulling", 82),
        ("starting", 120),
        ("running", 130),
        ("succeeded", 702),
    ]
    (key,) = story.resolver.workloads()
    spent = story.resolver.time_in_each(key, at_ms(800))
    assert {phase.value: ms / 1000 for phase, ms in spent.items()} == {
        "queued": 61,
        "admitted": 2,
        "scheduling": 17,
        "starting": 12,
        "pulling": 38,
        "running": 572,
        "succeeded": 98,
    }


def test_a_first_look_at_a_retry_does_not_take_the_time_that_the_job_ran_for_waiting() -> None:
    story = Story()
    own = job(story)
    queued = make(story.made, "kueue.x-k8s.io/v1beta1", "Workload", "job-train", own)
    queued["status"] = {"conditions": [condition("QuotaReserved", 1), condition("Admitted", 1)]}
    failed = ended(pod(story, own, 0, created=2), 3, 1800, code=1)
    retry = running(pod(story, own, 0, created=1810), 1830, 1812)
    assert now(story.at(2000, own, queued, failed, retry))[0] == "running"
    assert story.told == [("scheduling", 1810), ("starting", 1812), ("running", 1830)]


def test_a_first_look_at_a_running_job_still_shows_how_it_came_there() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index, 5), 90 + index, scheduled_at=30 + index) for index in (0, 1)]
    assert now(story.at(4000, own, *pods))[0] == "running"
    assert story.told == [("scheduling", 5), ("starting", 31), ("running", 91)]


def test_a_job_that_ended_between_two_looks_was_running() -> None:
    story = Story()
    own = job(story)
    pods = [ended(pod(story, own, index, 5), 10, 20) for index in (0, 1)]
    own["status"] = {"conditions": [condition("Complete", 21)]}
    story.at(60, own, *pods)
    assert story.told == [("scheduling", 5), ("starting", 9), ("running", 10), ("succeeded", 21)]


def test_scheduling_says_what_is_missing() -> None:
    story = Story()
    own = job(story)
    pods = [unschedulable(pod(story, own, index)) for index in (0, 1)]
    phase, reason = now(story.at(10, own, *pods))
    assert (phase, reason) == ("scheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


def test_scheduling_takes_the_event_where_the_status_is_silent() -> None:
    story = Story()
    own = make_pod(story.made, "alone")
    story.at(1, own)
    assert now(story.at(2, event(story, own, "FailedScheduling", 2, "no fit"))) == ("scheduling", "no fit")


def test_a_gate_holds_a_pod_in_the_queue() -> None:
    story = Story()
    own = make_pod(
        story.made, "alone", spec={**GPU, "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    )
    assert now(story.at(1, own)) == ("queued", "held back by kueue.x-k8s.io/admission")


def test_images_that_cannot_be_pulled() -> None:
    story = Story()
    own = scheduled(make_pod(story.made, "alone"), 1, "ImagePullBackOff")
    assert now(story.at(2, own)) == ("pulling", "ImagePullBackOff")


def test_a_crash_loop_is_a_restart_with_its_reason() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    pods[1]["status"]["conditions"] = [condition("PodScheduled", 0), condition("Ready", 50, status="False")]
    pods[1]["status"]["containerStatuses"] = [
        {
            "name": "main",
            "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at(50)}},
        }
    ]
    phase, reason = now(story.at(51, pods[1]))
    assert phase == "restarting"
    assert reason == "train-1-0: main, CrashLoopBackOff, OOMKilled (exit code 137)"


def test_a_failed_pod_is_replaced_and_the_attempt_is_new() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    assert now(story.at(31, ended(pods[1], 10, 30, code=1)))[0] == "restarting"
    again = running(pod(story, own, 1, created=40), 60, scheduled_at=45)
    found = story.at(61, again)
    assert found is not None
    assert (found.phase, found.attempt) == (Phase.RUNNING, 1)
    assert story.told == [
        ("starting", 0),
        ("running", 10),
        ("restarting", 30),
        ("scheduling", 40),
        ("starting", 45),
        ("running", 60),
    ]


def test_pods_that_are_gone_are_a_restart_until_new_ones_come() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    assert now(story.without(20, *pods)) == ("restarting", "its pods are gone")


def test_a_probe_that_fails_does_not_stop_a_running_job() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    pods[0]["status"]["conditions"][1] = condition("Ready", 20, status="False")
    assert now(story.at(21, pods[0]))[0] == "running"


def test_a_pod_that_never_was_ready_is_starting() -> None:
    story = Story()
    own = running(make_pod(story.made, "alone"), 10)
    own["status"]["conditions"][1] = condition("Ready", 5, status="False")
    assert now(story.at(11, own)) == ("starting", "not ready")


def test_suspended_without_a_queue() -> None:
    story = Story()
    own = job(
        story, spec={"suspend": True}, status={"conditions": [condition("Suspended", 3, "JobSuspended")]}
    )
    assert now(story.at(4, own)) == ("suspended", "JobSuspended")
    assert story.told == [("suspended", 3)]


def test_suspended_while_its_pods_are_still_there() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    own["spec"]["suspend"] = True
    assert now(story.at(20, own))[0] == "suspended"


def test_a_gate_that_waits_for_a_place_is_scheduling() -> None:
    story = Story()
    own = make_pod(
        story.made, "alone", spec={**GPU, "schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
    )
    assert now(story.at(1, own)) == ("scheduling", "waits for a place in the topology")


def test_preempted_by_the_queue_then_queued_again() -> None:
    story = Story()
    own = job(story)
    queued = make(story.made, "kueue.x-k8s.io/v1beta1", "Workload", "job-train", own)
    queued["status"] = {"conditions": [condition("QuotaReserved", 1), condition("Admitted", 1)]}
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, queued, *pods)
    own["spec"]["suspend"] = True
    queued["status"] = {
        "conditions": [
            condition("QuotaReserved", 20, status="False"),
            condition("Admitted", 20, status="False"),
            condition("Evicted", 20, "Preempted"),
            condition("Preempted", 20, "InClusterQueue"),
        ]
    }
    assert now(story.at(21, own, queued)) == ("preempted", "InClusterQueue")
    assert now(story.without(30, *pods)) == ("queued", "again, preempted: InClusterQueue")
    assert story.told[-2:] == [("preempted", 20), ("queued", 30)]


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        ("PreemptionByScheduler", "preempted"),
        ("DeletionByTaintManager", "evicted"),
        ("EvictionByEvictionAPI", "evicted"),
        ("TerminationByKubelet", "evicted"),
    ],
)
def test_a_disruption_is_named_for_its_cause(reason: str, phase: str) -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    pods[0]["metadata"]["deletionTimestamp"] = at(50)
    pods[0]["status"]["conditions"].append(condition("DisruptionTarget", 20, reason, message="so it was"))
    assert now(story.at(21, pods[0])) == (phase, "train-0-0: so it was")
    assert story.told[-1] == (phase, 20)
    story.without(30, *pods)
    assert story.told[-1] == (phase, 20), "until new pods come it stays that"


@pytest.mark.parametrize(
    ("reason", "phase"),
    [("Preempted", "preempted"), ("Evicted", "evicted"), ("TaintManagerEviction", "evicted")],
)
def test_events_tell_where_an_older_cluster_has_no_condition(reason: str, phase: str) -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    pods[0]["metadata"]["deletionTimestamp"] = at(50)
    assert now(story.at(21, pods[0], event(story, pods[0], reason, 20, "by ns/other")))[0] == phase


def test_a_cancelled_eviction_is_none() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    pods[0]["metadata"]["deletionTimestamp"] = at(50)  # by somebody else
    cancelled = event(story, pods[0], "TaintManagerEviction", 20, "Cancelling deletion of Pod default/train")
    assert now(story.at(21, own, *pods, cancelled))[0] == "running"


@pytest.mark.parametrize(
    "signal",
    [
        {"spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]}},
        {
            "spec": {
                "taints": [{"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}]
            }
        },
        {"status": {"conditions": [condition("PreemptScheduled", 19)]}},
    ],
)
def test_a_spot_machine_that_is_taken_back(signal: Manifest) -> None:
    story = Story()
    own = job(story)
    node = make(story.made, "v1", "Node", "n1", meta={"namespace": ""}, spec={})
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, node, own, *pods)
    assert now(story.at(20, {**node, **signal}))[0] == "running", "announced, not done"
    story.resolver.removed(to_object(node))
    pods[0]["metadata"]["deletionTimestamp"] = at(30)
    assert now(story.at(31, pods[0])) == ("spot-reclaimed", "train-0-0: the cloud took the node back")


def test_an_event_tells_that_a_node_is_taken_back() -> None:
    """Its uid in the event is the node's name, as many write it."""
    story = Story()
    node = make(story.made, "v1", "Node", "n1", meta={"namespace": ""}, spec={})
    own = running(make_pod(story.made, "alone"), 1)
    told = event(story, node, "SpotInterrupted", 3)
    told["involvedObject"] = {"kind": "Node", "name": "n1", "uid": "n1"}
    own["metadata"]["deletionTimestamp"] = at(9)
    assert now(story.at(9, node, own, told))[0] == "spot-reclaimed"


def test_a_node_that_is_taken_back_stays_so_while_pods_come_and_go() -> None:
    story = Story()
    taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
    node = make(story.made, "v1", "Node", "n1", meta={"namespace": ""}, spec={"taints": [taint]})
    first = running(make_pod(story.made, "first"), 1)
    story.at(2, node, first)
    story.without(3, first)
    second = running(make_pod(story.made, "second"), 4)
    story.at(5, second)
    second["metadata"]["deletionTimestamp"] = at(9)
    assert now(story.at(9, second))[0] == "spot-reclaimed"
    node["spec"] = {}
    assert now(story.at(10, node))[0] == "running", "it was called off"


def test_the_newest_pod_of_a_seat_counts_whichever_is_told_first() -> None:
    for newest_first in (True, False):
        story = Story()
        own = job(story, spec={"parallelism": 1})
        old = ended(pod(story, own, 0), 1, 5, code=1)
        new = running(pod(story, own, 0, created=10), 20)
        pods = (new, old) if newest_first else (old, new)
        assert now(story.at(21, own, *pods))[0] == "running"


def test_an_evicted_pod_of_a_service_that_still_runs_does_not_stop_it() -> None:
    story = Story()
    deployment = make(story.made, "apps/v1", "Deployment", "web", spec={"replicas": 2})
    replicas = make(story.made, "apps/v1", "ReplicaSet", "web-1", deployment)
    pods = [running(make_pod(story.made, f"web-1-{name}", replicas), 10) for name in "ab"]
    story.at(11, deployment, replicas, *pods)
    pods[0]["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource"}
    assert now(story.at(20, pods[0]))[0] == "running"
    assert now(story.without(30, *pods)) == ("restarting", "its pods are gone")
    deployment["spec"]["replicas"] = 0
    assert now(story.at(40, deployment)) == ("suspended", "scaled to zero")


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "phase"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"conditions": [condition("Completed", 5)]}, "succeeded"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"conditions": [condition("Failed", 5)]}, "failed"),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {"conditions": [condition("Complete", 5)]},
            "succeeded",
        ),
        ("kubeflow.org/v1", "PyTorchJob", {"conditions": [condition("Succeeded", 5)]}, "succeeded"),
        ("kubeflow.org/v1", "PyTorchJob", {"conditions": [condition("Restarting", 5)]}, "restarting"),
        ("kubeflow.org/v2beta1", "MPIJob", {"conditions": [condition("Failed", 5)]}, "failed"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "succeeded"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "failed"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Failed"}, "failed"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Suspended"}, "suspended"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Retrying"}, "restarting"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Completed"}}, "succeeded"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Aborted"}}, "suspended"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Restarting"}}, "restarting"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Pending"}}, "queued"),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": "Succeeded"}, "succeeded"),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": "Error", "message": "no such image"}, "failed"),
        ("batch/v1", "Job", {}, "scheduling"),
    ],
)
def test_each_operators_own_words(api_version: str, kind: str, status: Manifest, phase: str) -> None:
    story = Story()
    assert now(story.at(10, make(story.made, api_version, kind, "x", spec={}, status=status)))[0] == phase


def test_bare_pods_end_by_themselves() -> None:
    story = Story()
    own = ended(make_pod(story.made, "alone"), 5, 10, code=3)
    assert now(story.at(11, own)) == ("failed", "alone: main, Error (exit code 3)")
    other = Story()
    assert now(other.at(11, ended(make_pod(other.made, "alone"), 5, 10)))[0] == "succeeded"


def test_a_deleted_workload_is_over() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    story.without(20, own, *pods)
    assert story.resolver.workloads() == {}
    assert all(interval.to_ms is not None for interval in story.sink.phases.values())


@pytest.mark.parametrize("skew", [-7200.0, -3.0, 3.0, 7200.0])
def test_a_wrong_node_clock_makes_no_negative_interval(skew: float) -> None:
    """Ready, started and finished come from the node; creation and scheduling do not."""
    story = Story()
    own = job(story)
    pods = [pod(story, own, index, 5) for index in (0, 1)]
    story.at(6, own, *copy.deepcopy(pods))
    for one in pods:
        running(one, 20 + skew, scheduled_at=10)
    story.at(21, *copy.deepcopy(pods))
    for one in pods:
        ended(one, 20 + skew, 90 + skew)
    own["status"] = {"conditions": [condition("Complete", 92)]}
    story.at(93, own, *pods)
    phases = sorted(story.sink.phases.values(), key=lambda one: one.from_ms)
    assert phases[-1].phase is Phase.SUCCEEDED
    assert Phase.RUNNING in [one.phase for one in phases]
    for one in phases:
        assert at_ms(0) <= one.from_ms <= at_ms(93)
        assert one.to_ms is None or one.to_ms >= one.from_ms
    for before, after in pairwise(phases):
        assert before.to_ms == after.from_ms, "no gap, no overlap"
    for member in story.sink.memberships.values():
        assert member.to_ms is not None
        assert at_ms(5) <= member.from_ms <= member.to_ms <= at_ms(93)
    (record,) = story.resolver.workloads().values()
    assert [doubt.code for doubt in record.doubts] == (["clock-skew"] if abs(skew) > 60 else [])


def test_the_life_as_metrics() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index, 5), 30, scheduled_at=20) for index in (0, 1)]
    story.at(31, own, *pods)
    samples = list(phase_metrics(story.resolver, at_ms(130)))
    keys = [(sample.metric, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(keys) == len(set(keys))
    assert [(one.labels["phase"], one.value) for one in samples if one.metric == PHASE] == [("running", 1)]
    spent = {one.labels["phase"]: one.value for one in samples if one.metric == PHASE_SECONDS}
    assert spent == {"scheduling": 15, "starting": 10, "running": 100}
    assert samples[0].labels["workload"] == "train"


def test_of_two_workloads_with_one_name_the_newer_tells() -> None:
    """The old Job is gone while a pod of it lingers; the new one has its name."""
    story = Story()
    old = make(story.made, "batch/v1", "Job", "train", spec={}, meta={"uid": "old"})
    new = make(
        story.made, "batch/v1", "Job", "train", spec={}, meta={"uid": "new", "creationTimestamp": at(5)}
    )
    story.at(6, new)
    story.at(7, running(pod(story, old, 0), 1))
    story.at(20)
    assert len(story.resolver.workloads()) == 2
    phases = [one for one in phase_metrics(story.resolver, at_ms(21)) if one.metric == PHASE]
    assert [one.labels["phase"] for one in phases] == ["scheduling"]
