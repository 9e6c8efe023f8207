"""A cluster as it is now: how pods ended, and which nodes are ready."""

from __future__ import annotations

from typing import Any

import pytest
from state_objects import condition, container_status, made, running_pod

from kube_objects import KeptIntervals, at, at_ms, resolver, to_object
from trilens.model.kubernetes import GroupKind
from trilens.model.workload import PodKey
from trilens.resolve.departed import KEPT_MS
from trilens.resolve.present import Present, pod_state

KEY = PodKey("c", "ml", "p", "u")


def _state(phase: str, *statuses: Any, **status: Any) -> Any:
    pod = running_pod()
    pod["status"] = {"phase": phase, "containerStatuses": list(statuses), **status}
    return pod_state(to_object(pod), KEY)


def _ended(code: int, reason: str, when: int = 8) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at(1), "finishedAt": at(when)}}


def test_a_running_pod() -> None:
    found = _state(
        "Running", container_status("main", state={"running": {}}), conditions=[condition("Ready")]
    )
    assert (found.state, found.reason, found.exit_code, found.restarts) == ("Running", "", None, 0)
    assert found.changed_ms == at_ms(5)
    assert found.wants_gpu


def test_a_pod_says_why_it_failed() -> None:
    fine = container_status("sidecar", state=_ended(0, "Completed"))
    killed = container_status("main", state=_ended(137, "OOMKilled"))
    found = _state("Failed", fine, killed)
    assert (found.state, found.reason, found.exit_code) == ("Failed", "OOMKilled", 137)
    assert found.changed_ms == at_ms(8)
    assert _state("Failed", fine, reason="Evicted").reason == "Evicted"


def test_a_container_that_was_started_again_tells_of_before() -> None:
    again = container_status("main", state={"running": {}}, lastState=_ended(1, "Error"), restartCount=2)
    found = _state("Running", again)
    assert (found.reason, found.exit_code, found.restarts) == ("Error", 1, 2)


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_a_cluster_with_its_workloads_and_nodes(status: str) -> None:
    clusters = resolver(KeptIntervals())
    node = made("v1", "Node", "gpu-1", "", status={"conditions": [condition("Ready", status)]})
    for manifest in (node, running_pod()):
        clusters.changed(to_object(manifest))
    clusters.synced(GroupKind("", "Pod"))
    clusters.synced(GroupKind("", "Node"))
    clusters.settle(at_ms(20))
    clusters.settle(at_ms(40))
    present = Present()
    found = present.of(clusters)
    assert [(one.node, one.is_ready) for one in found.nodes] == [("gpu-1", status == "True")]
    assert [len(one.pods) for one in found.workloads] == [1]
    again = present.of(clusters)
    assert again.workloads[0].pods[0] is found.workloads[0].pods[0]


def _leaving(phase: str = "Running", asked: int | None = 10, gone: bool = False, **parts: Any) -> Any:
    """A pod that somebody deletes at `asked`, with what its status says."""
    pod = running_pod()
    pod["status"] = {"phase": phase, "containerStatuses": [], **parts}
    if asked is not None:
        pod["metadata"]["deletionTimestamp"] = at(asked)
    return pod_state(to_object(pod), KEY, at_ms(30) if gone else None)


def _target(reason: str) -> dict[str, Any]:
    return condition("DisruptionTarget", reason=reason)


@pytest.mark.parametrize(
    ("parts", "asked_s"),
    [
        pytest.param({"asked": None}, None, id="nobody"),
        pytest.param({}, 10, id="deleted"),
        pytest.param({"conditions": [_target("EvictionByEvictionAPI")]}, 5, id="drained"),
        pytest.param({"conditions": [_target("PreemptionByScheduler")]}, 5, id="preempted"),
        pytest.param(
            {"conditions": [_target("TerminationByKubelet")], "reason": "Evicted"}, None, id="evicted"
        ),
        pytest.param(
            {"conditions": [_target("TerminationByKubelet")], "reason": "Terminated"}, 5, id="shutdown"
        ),
        pytest.param({"conditions": [_target("DeletionByPodGC")]}, None, id="collected"),
    ],
)
def test_who_was_asked_to_go(parts: dict[str, Any], asked_s: int | None) -> None:
    assert _leaving(**parts).asked_to_go_ms == (at_ms(asked_s) if asked_s is not None else None)


@pytest.mark.parametrize(
    ("code", "ended_s", "was_asked"),
    [(1, 8, False), (1, 12, True), (143, 12, True), (143, 8, True), (137, 8, False)],
)
def test_one_that_had_ended_before_was_not_asked_unless_it_was_told_to_end(
    code: int, ended_s: int, was_asked: bool
) -> None:
    ended = container_status("main", state=_ended(code, "Error", ended_s))
    found = _leaving("Failed", containerStatuses=[ended])
    assert (found.asked_to_go_ms is not None) == was_asked
    gone = _leaving("Failed", gone=True, containerStatuses=[ended])
    assert gone.state == ("Gone" if was_asked else "Failed")
    assert (gone.exit_code, gone.gone_ms) == (code, at_ms(30))


def test_one_that_was_deleted_at_once_went_when_it_was_gone() -> None:
    found = _leaving(asked=None, gone=True)
    assert (found.state, found.asked_to_go_ms, found.changed_ms) == ("Gone", at_ms(30), at_ms(30))


def test_how_a_pod_ended_is_known_for_a_while_after_it_went() -> None:
    """Though nobody looked between its end and its deletion, as where a controller starts a job again."""
    clusters = resolver(KeptIntervals())
    job = made("kubeflow.org/v1", "PyTorchJob", "train", metadata={"uid": "u-9"})
    for manifest in (job, running_pod()):
        clusters.changed(to_object(manifest))
    for kind in (GroupKind("", "Pod"), GroupKind("kubeflow.org", "PyTorchJob")):
        clusters.synced(kind)
    clusters.settle(at_ms(20))
    present = Present()
    assert not present.of(clusters).workloads[0].departed
    failed = running_pod()
    failed["status"] = {
        "phase": "Failed",
        "containerStatuses": [container_status("main", state=_ended(137, "OOMKilled", 21))],
    }
    clusters.removed(to_object(failed))
    clusters.settle(at_ms(22))
    (workload,) = present.of(clusters).workloads
    assert not workload.pods
    (gone,) = workload.departed
    assert (gone.pod.name, gone.state, gone.reason, gone.gone_ms) == (
        "train-0",
        "Failed",
        "OOMKilled",
        at_ms(22),
    )
    assert present.of(clusters).workloads[0].departed[0] is gone
    clusters.settle(at_ms(22) + KEPT_MS + 1)
    assert not present.of(clusters).workloads[0].departed
