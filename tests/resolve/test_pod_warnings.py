"""What Kubernetes warns of about GPU pods is kept, whatever comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kube_objects import at, at_ms, to_object
from trilens.model.event import EventKind, Victim
from trilens.resolve.pod_warnings import PodWarnings

if TYPE_CHECKING:
    from trilens.model.event import EventRecord
    from trilens.model.kubernetes import KubeObject


class Told:
    def __init__(self) -> None:
        self.events: list[EventRecord] = []

    def event(self, event: EventRecord) -> None:
        self.events.append(event)


def pod(uid: str, *, gpus: int) -> KubeObject:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    meta = {"name": "train-0", "namespace": "ml", "uid": uid}
    return to_object({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def warning(uid: str, *, kind: str = "Pod", **body: Any) -> KubeObject:
    return to_object(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "train-0.17", "namespace": "ml", "uid": "e1"},
            "involvedObject": {"kind": kind, "name": "train-0", "uid": uid},
            "reason": "BackOff",
            "message": "back-off restarting failed container",
            "type": "Warning",
            "source": {"component": "kubelet", "host": "gpu-1"},
            "lastTimestamp": at(30),
            **body,
        }
    )


@pytest.mark.parametrize("pod_first", [True, False])
def test_a_warning_about_a_gpu_pod_is_told_in_any_order(pod_first: bool) -> None:
    told = Told()
    warnings = PodWarnings(told)
    both = [pod("p1", gpus=1), warning("p1")]
    for obj in both if pod_first else reversed(both):
        warnings.changed(obj)
    [event] = told.events
    assert (event.kind, event.title, event.node, event.id) == (EventKind.WARNING, "BackOff", "gpu-1", "e1")
    assert event.t_ms == at_ms(30)
    assert event.victims == (Victim("ml", "train-0", "p1"),)
    warnings.changed(pod("p1", gpus=1))
    assert len(told.events) == 1


def test_others_are_not_kept() -> None:
    told = Told()
    warnings = PodWarnings(told)
    for obj in (
        pod("p1", gpus=0),
        warning("p1"),
        pod("p2", gpus=1),
        warning("p2", type="Normal"),
        warning("p2", kind="Job"),
        warning("p3"),
        pod("p3", gpus=0),
    ):
        warnings.changed(obj)
    assert told.events == []
