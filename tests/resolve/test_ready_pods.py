"""Which pods of a workload do their work now."""

from __future__ import annotations

from typing import Any

from kube_objects import MadeObjects, at, at_ms, resolver, to_object


def pod(name: str, ready: bool) -> dict[str, Any]:
    status = {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": at(1)},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)},
        ],
        "containerStatuses": [{"name": "c", "ready": ready, "state": {"running": {"startedAt": at(1)}}}],
    }
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec, "status": status}


def test_ready_ones_only() -> None:
    made, found = MadeObjects(), resolver()
    up, coming = made.create(pod("up", ready=True)), made.create(pod("coming", ready=False))
    for manifest in (up, coming):
        found.changed(to_object(manifest))
    found.settle(at_ms(10))
    ready = {key.name: {one.name for one in found.ready_pods(key)} for key in found.workloads()}
    assert ready == {"up": {"up"}, "coming": set()}
    (gone,) = [key for key in found.workloads() if key.name == "up"]
    found.removed(to_object(up))
    found.settle(at_ms(20))
    assert found.ready_pods(gone) == frozenset()
