"""Memberships as intervals: told once, continued after a restart, never lost."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from small_jobs import JOBSET, PYTORCHJOB, RAYJOB, make, make_pod
from story import Story, ended, job, pod, running

from kube_objects import KeptIntervals, MadeObjects, at, at_ms, resolved, resolver, to_object
from operators_at_work import put_to_work
from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.resolve.resolver import ClusterResolver
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject


def test_the_same_objects_again_tell_nothing_new() -> None:
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    sink = KeptIntervals()
    found = resolver(sink)
    for look in range(3):
        for obj in made.objects():
            found.changed(obj)
        found.settle(at_ms(10 + look))
        if look == 0:
            told = sink.told
            assert told > 0
    assert sink.told == told


def test_a_member_stays_until_its_pod_ends() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index, 5), 10) for index in (0, 1)]
    story.at(11, own, *pods)
    assert {interval.from_ms for interval in story.resolver.open_memberships.values()} == {at_ms(5)}
    story.at(60, ended(pods[0], 10, 50))
    story.without(80, pods[0], pods[1])
    ends = {key[0].name: one.to_ms for key, one in story.sink.memberships.items()}  # type: ignore[attr-defined]
    assert ends == {"train-0-5": at_ms(50), "train-1-5": at_ms(80)}
    assert story.resolver.open_memberships == {}


def test_the_node_is_filled_in_without_a_new_interval() -> None:
    story = Story()
    own = job(story)
    waiting = pod(story, own, 0, 5)
    story.at(6, own, waiting)
    story.at(11, running(waiting, 10, node="gpu-7"))
    (interval,) = story.sink.memberships.values()
    assert (interval.node, interval.from_ms, interval.to_ms) == ("gpu-7", at_ms(5), None)


def test_what_is_learnt_later_begins_a_new_interval() -> None:
    """The owner comes long after the pods: until then their ranks were not known."""
    made = MadeObjects()
    put_to_work(JOBSET, made.create)
    sink = KeptIntervals()
    found = resolver(sink)
    owner = made.objects()[0]
    for obj in made.objects()[1:]:
        found.changed(obj)
    found.settle(at_ms(0))
    found.settle(at_ms(20))
    before = {key.workload.kind for key in found.memberships().values()}
    found.changed(owner)
    found.settle(at_ms(30))
    assert before == {"JobSet"}, "known by the reference to it"
    assert {one.workload.uid for one in found.memberships().values()} == {owner.uid}
    first = [one for one in sink.memberships.values() if one.to_ms is not None]
    assert all(one.to_ms == at_ms(30) for one in first)
    assert all(one.membership.doubts == () for one in found.open_memberships.values())


def job_that_was_seen() -> tuple[MadeObjects, KeptIntervals, ClusterResolver]:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    sink = KeptIntervals()
    before = resolver(sink)
    for obj in made.objects():
        before.changed(obj)
    before.settle(at_ms(100))
    return made, sink, before


def test_a_restart_of_trilens_continues_what_was_open() -> None:
    made, sink, before = job_that_was_seen()
    kept = dict(sink.memberships)
    gone = next(obj for obj in made.objects() if obj.name == "llm-worker-1")

    after = resolver(sink)
    after.restore(sink.memberships.values(), sink.phases.values())
    told = sink.told
    for obj in made.objects():
        if obj.uid != gone.uid:
            after.changed(obj)
    after.settle(at_ms(500))
    changed = {key: one for key, one in sink.memberships.items() if kept.get(key) != one}
    assert [one.to_ms for one in changed.values()] == [at_ms(500)], "only the one that went meanwhile ended"
    assert {key.name for key in after.open_memberships} == {"llm-master-0", "llm-worker-0"}
    assert sink.told <= told + 2, "its end, and the record"
    (key,) = after.workloads()
    phase = after.phase(key)
    assert phase is not None
    assert phase.from_ms == before.phase(key).from_ms  # type: ignore[union-attr]


def test_nothing_ends_before_the_pods_have_been_read() -> None:
    story = Story()
    own = make_pod(story.made, "alone")
    story.at(10, own)
    after = ClusterResolver("test", OwnershipSettings(), TopologySettings(), story.sink)
    after.restore(story.sink.memberships.values(), story.sink.phases.values())
    after.settle(at_ms(50))
    assert len(after.open_memberships) == 1
    assert [one.to_ms for one in story.sink.phases.values()] == [None]
    after.synced(GroupKind("", "Pod"))
    after.settle(at_ms(60))
    assert after.open_memberships == {}
    assert [one.to_ms for one in story.sink.memberships.values()] == [at_ms(60)]


def test_attempts_count_on_after_a_restart_of_trilens() -> None:
    made, sink, _ = job_that_was_seen()
    worker = next(obj for obj in made.objects() if obj.name == "llm-worker-1")
    again = replace(worker, uid="again", created_ms=at_ms(200))
    after = resolver(sink)
    after.restore(sink.memberships.values())
    for obj in made.objects():
        if obj.uid != worker.uid:
            after.changed(obj)
    after.changed(again)
    after.settle(at_ms(500))
    attempts = {key.name: one.attempt for key, one in after.memberships().items()}
    assert attempts == {"llm-master-0": 0, "llm-worker-0": 0, "llm-worker-1": 1}


def test_a_pod_that_ended_before_a_restart_of_trilens_is_not_told_again() -> None:
    story = Story()
    own = job(story)
    over = ended(pod(story, own, 0, 5), 10, 50)
    story.at(60, own, over)
    after = resolver(story.sink)
    after.restore(story.sink.memberships.values())
    told = dict(story.sink.memberships)
    story.sink.memberships.clear()
    resolved([to_object(own), to_object(over)], after)
    assert [one.to_ms for one in told.values()] == [at_ms(50)]
    assert story.sink.memberships == {}


def test_what_is_no_workload_any_more_ends() -> None:
    """Settings changed while Trilens was down."""
    story = Story()
    own = make_pod(story.made, "alone", spec={"containers": []})
    story.at(10, own)
    after = resolver(story.sink, system_namespaces=("default",))
    after.restore(story.sink.memberships.values())
    after.changed(to_object(own))
    after.settle(at_ms(100))
    assert after.open_memberships == {}
    assert [one.to_ms for one in story.sink.memberships.values()] == [at_ms(100)]


def test_a_rayjob_counts_its_clusters_on_after_a_restart_of_trilens() -> None:
    """The first cluster is long gone, and the second may be too."""
    owner = MadeObjects().create(copy.deepcopy(RAYJOB))

    def ray_cluster(number: int) -> list[KubeObject]:
        made = MadeObjects()
        made.create(copy.deepcopy(owner))
        meta = {"uid": f"cluster-{number}", "creationTimestamp": at(100 * number)}
        cluster = make(made, "ray.io/v1", "RayCluster", f"tune-{number}", owner, meta=meta)
        make_pod(
            made,
            f"tune-{number}-worker",
            cluster,
            {"ray.io/cluster": f"tune-{number}", "ray.io/node-type": "worker"},
            creationTimestamp=at(100 * number + 1),
            uid=f"worker-{number}",
        )
        return made.objects()

    sink = KeptIntervals()
    before = resolver(sink)
    for number in (0, 1):
        resolved(ray_cluster(number), before)
    assert {key.name: one.attempt for key, one in before.memberships().items()} == {
        "tune-0-worker": 0,
        "tune-1-worker": 1,
    }
    everything = list(sink.memberships.values())
    only_the_last = [one for one in everything if one.membership.attempt == 1]
    for kept, seen, expected in (
        (everything, [1], {"tune-1-worker": 1}),
        (everything, [1, 2], {"tune-1-worker": 1, "tune-2-worker": 2}),
        (everything, [2], {"tune-2-worker": 2}),
        (only_the_last, [1, 2], {"tune-1-worker": 1, "tune-2-worker": 2}),
        (only_the_last, [2], {"tune-2-worker": 2}),
    ):
        after = resolver()
        after.restore(kept)
        for number in seen:
            members = resolved(ray_cluster(number), after)
        assert {name: one.attempt for name, one in members.items()} == expected


def test_a_namesake_that_comes_before_the_removal_ends_the_old_one() -> None:
    """A watch that was away tells only the new pod."""
    story = Story()
    own = job(story)
    old = running(pod(story, own, 0, 5), 10)
    story.at(11, own, old)
    new = running(pod(story, own, 0, 5, uid="another"), 40)
    story.at(41, new)
    assert [key.uid for key in story.resolver.open_memberships] == ["another"]
    assert len(story.sink.memberships) == 2
    story.without(50, old)
    assert [key.uid for key in story.resolver.open_memberships] == ["another"], (
        "the late removal is the old one's"
    )


def test_time_in_each_phase_survives_a_restart() -> None:
    story = Story()
    own = job(story)
    pods = [running(pod(story, own, index, 5), 30, scheduled_at=20) for index in (0, 1)]
    story.at(31, own, *pods)
    after = resolver(story.sink)
    after.restore(story.sink.memberships.values(), list(story.sink.phases.values()))
    (key,) = story.resolver.workloads()
    assert after.time_in_each(key, at_ms(100)) == story.resolver.time_in_each(key, at_ms(100))
    assert after.time_in_each(key, at_ms(100))[Phase.RUNNING] == 70_000
    assert [one.phase for one in after.recent_phases(key)] == [
        Phase.SCHEDULING,
        Phase.STARTING,
        Phase.RUNNING,
    ]
