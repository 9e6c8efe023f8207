"""A cluster as it is now: how pods ended, and which nodes are ready."""

from __future__ import annotations

from typing import Any

import pytest
from state_objects import condition, container_status, made, running_pod

from kube_objects import KeptIntervals, at, at_ms, resolver, to_object
from trilens.model.kubernetes import GroupKind
from trilens.model.workload import PodKey
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
