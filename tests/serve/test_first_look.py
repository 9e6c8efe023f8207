"""When a cluster counts as read through."""

from __future__ import annotations

from trilens.collect.kubernetes.state import ClusterState, ResourceState, Trouble
from trilens.model.kubernetes import GroupKind
from trilens.serve.first_look import LATE_S, FirstLook

BROKEN = Trouble("HTTP 500", 0)


def resource(kind: str, *, synced: bool, namespace: str = "") -> ResourceState:
    trouble = None if synced else BROKEN
    return ResourceState(GroupKind("", kind), "v1", namespace, synced, 0, trouble, None, 0, 0, 0)


def state(*resources: ResourceState) -> ClusterState:
    return ClusterState("lab", True, None, resource("CustomResourceDefinition", synced=True), resources)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_all_is_read() -> None:
    look = FirstLook(Clock())
    assert not look.is_done(ClusterState("lab", False, None, resource("X", synced=False), ()))
    assert look.is_done(state(resource("Pod", synced=True), resource("Node", synced=True)))


def test_what_fails_later_changes_nothing() -> None:
    look = FirstLook(Clock())
    assert look.is_done(state(resource("Pod", synced=True)))
    assert look.is_done(state(resource("Pod", synced=False)))


def test_a_kind_that_cannot_be_read_delays_the_others_for_a_while_only() -> None:
    clock = Clock()
    look = FirstLook(clock)
    partly = state(resource("Pod", synced=True), resource("Node", synced=False))
    assert not look.is_done(partly)
    clock.now += LATE_S - 1
    assert not look.is_done(partly)
    clock.now += 1
    assert look.is_done(partly)


def test_without_all_pods_nothing_is_known_however_late() -> None:
    clock = Clock()
    look = FirstLook(clock)
    partly = state(resource("Pod", synced=True, namespace="a"), resource("Pod", synced=False, namespace="b"))
    assert not look.is_done(partly)
    clock.now += 10 * LATE_S
    assert not look.is_done(partly)
