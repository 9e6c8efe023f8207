"""Watches run side by side: the same objects in any order give the same memberships."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from small_jobs import GPU, JOBSET, LWS, MPIJOB, PYTORCHJOB, RAYJOB, make, make_pod

from kube_objects import MadeObjects, at, at_ms, resolver
from operators_at_work import put_to_work

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.resolver import ClusterResolver


def _cluster() -> list[KubeObject]:
    made = MadeObjects()
    for manifest in (PYTORCHJOB, MPIJOB, JOBSET, LWS, RAYJOB):
        put_to_work(manifest, made.create)
    job = make(made, "batch/v1", "Job", "retried", spec={"parallelism": 2})
    for number in range(3):
        labels = {"batch.kubernetes.io/job-completion-index": "0"}
        make_pod(made, f"retried-0-{number}", job, labels, creationTimestamp=at(number))
    foreign = make(made, "ml.acme.io/v1", "Training", "big")
    make_pod(made, "big-0", foreign)
    for index in (0, 1):
        make_pod(made, f"grouped-{index}", labels={"kueue.x-k8s.io/pod-group-name": "grouped"})
    make(made, "kueue.x-k8s.io/v1beta1", "Workload", "grouped")
    make_pod(
        made,
        "orphan",
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "uid": "x"}},
        spec=GPU,
    )
    return made.objects()


OBJECTS = _cluster()


def _settled(made: ClusterResolver) -> ClusterResolver:
    made.settle(at_ms(3600))
    made.settle(at_ms(3700))
    return made


def _in_order() -> ClusterResolver:
    made = resolver()
    for obj in OBJECTS:
        made.changed(obj)
    return _settled(made)


EXPECTED = _in_order()


@settings(max_examples=60, deadline=None)
@given(
    order=st.permutations(OBJECTS), looks=st.sets(st.integers(0, len(OBJECTS)), max_size=5), again=st.data()
)
def test_any_order_of_arrival_gives_the_same_memberships(
    order: list[KubeObject], looks: set[int], again: st.DataObject
) -> None:
    """Also with looks in between, with objects told twice, and with some that come, go and come back."""
    returning = again.draw(st.sets(st.sampled_from([obj.uid for obj in OBJECTS]), max_size=4))
    made = resolver()
    for number, obj in enumerate(order):
        made.changed(obj)
        if obj.uid in returning:
            made.removed(obj)
        if number in looks:
            made.settle(at_ms(number))
    for obj in order:
        if obj.uid in returning:
            made.changed(obj)
    _settled(made)
    assert made.memberships() == EXPECTED.memberships()
    assert made.no_workload == EXPECTED.no_workload
    assert {key: one.membership for key, one in made.open_memberships.items()} == {
        key: one.membership for key, one in EXPECTED.open_memberships.items()
    }
    found, expected = made.workloads(), EXPECTED.workloads()
    assert {key: (one.team, one.attempt, one.doubts) for key, one in found.items()} == {
        key: (one.team, one.attempt, one.doubts) for key, one in expected.items()
    }


def test_all_gone_leaves_nothing_behind() -> None:
    made = _in_order()
    for obj in OBJECTS:
        made.removed(obj)
    made.settle(at_ms(4000))
    assert made.memberships() == {}
    assert made.workloads() == {}
    assert made.open_memberships == {}
    assert _held(made) == {}, "nothing is kept for objects that are gone"


def _held(part: object) -> dict[str, object]:
    """What is left in the collections of the resolver and of its parts."""
    left: dict[str, object] = {}
    for name, value in vars(part).items():
        if isinstance(value, dict | set | list):
            left |= {name: value} if value else {}
        elif type(value).__module__.startswith("trilens.resolve.") and name not in ("_rules", "_readable"):
            left |= _held(value)
    return left
