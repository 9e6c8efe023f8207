"""The objects of a simulated cluster go through the resolver: what it makes of them must be the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds import START_MS, chaotic

from kube_objects import KeptIntervals, resolver, to_object
from trilens.simulate.objects import RESOURCES
from trilens.simulate.scenario import JobKind, load_scenario
from trilens.simulate.world import World

if TYPE_CHECKING:
    from trilens.resolve.resolver import ClusterResolver

LOOKS_EVERY_MS = 15_000


class _Watch:
    """Tells a resolver every change of a world, in order. It looks as soon as an owner is gone, too: before
    the garbage collector has come to the pods."""

    def __init__(self, world: World, resolving: ClusterResolver) -> None:
        self._world = world
        self._resolving = resolving
        self._seen = 0

    def follow(self, to_ms: int) -> None:
        while self._world.now_ms < to_ms:
            self._world.advance(min(to_ms, self._world.now_ms + LOOKS_EVERY_MS))
            self._catch_up()
            self._resolving.settle(self._world.now_ms)

    def _catch_up(self) -> None:
        changes = [
            change
            for resource in RESOURCES
            for change in self._world.objects.changes_since(self._seen, resource.group, resource.plural)
        ]
        for change in sorted(changes, key=lambda change: change.resource_version):
            obj = to_object(change.object)
            if change.type != "DELETED":
                self._resolving.changed(obj)
                continue
            self._resolving.removed(obj)
            if obj.kind not in ("Pod", "Event"):
                self._resolving.settle(self._world.now_ms)
        self._seen = self._world.objects.resource_version


@pytest.fixture(scope="module", params=["default", "every-fault", "chaos"])
def watched(request: pytest.FixtureRequest) -> tuple[World, KeptIntervals]:
    sink = KeptIntervals()
    resolving = resolver(sink)
    if request.param == "chaos":
        world, minutes = chaotic(seed=3), 120
    else:
        world, minutes = World(load_scenario(request.param), start_ms=START_MS, seed=3), 180
    _Watch(world, resolving).follow(START_MS + minutes * 60_000)
    return world, sink


def test_every_pod_is_where_the_truth_says(watched: tuple[World, KeptIntervals]) -> None:
    world, sink = watched
    found = {interval.membership.pod.uid: interval.membership for interval in sink.memberships.values()}
    wrong = []
    for uid, seat in world.truth.seats.items():
        job = world.truth.jobs[seat.job_uid]
        member = found.get(uid)
        assert member is not None, seat
        key = member.workload
        is_right = (
            (key.namespace, key.group, key.kind, key.name, key.uid)
            == (job.namespace, job.group, job.kind, job.name, job.uid)
            and (member.attempt, member.role, member.group, member.node_rank)
            == (seat.attempt, seat.role, seat.group, seat.node_rank)
            and not member.doubts
        )
        if not is_right:
            wrong.append((seat, member))
    assert wrong == []


def test_every_kind_of_job_was_there_and_some_began_again(watched: tuple[World, KeptIntervals]) -> None:
    world, _ = watched
    if world.scenario.name == "default":
        assert {job.kind for job in world.truth.jobs.values()} == {kind.value for kind in JobKind}
    assert {attempt.attempt for attempt in world.truth.attempts} >= {0, 1}


def test_teams_and_queues_are_found(watched: tuple[World, KeptIntervals]) -> None:
    world, sink = watched
    assert sink.records
    for key, record in sink.records.items():
        job = world.truth.jobs[key.uid]
        assert (record.team, record.queue or "") == (job.team, job.queue)


def test_outcomes_are_told(watched: tuple[World, KeptIntervals]) -> None:
    """A job that succeeded, or failed, is seen to."""
    world, sink = watched
    told: dict[str, set[str]] = {}
    for (key, _, _), interval in sink.phases.items():
        told.setdefault(key.uid, set()).add(interval.phase.value)
    ended = [job for job in world.truth.jobs.values() if job.outcome and job.trains]
    assert ended or world.scenario.name != "default"
    for job in ended:
        assert job.outcome in told[job.uid], job


def test_preempted_jobs_are_seen_to_be(watched: tuple[World, KeptIntervals]) -> None:
    world, sink = watched
    for fault in world.truth.faults:
        if fault.kind == "preemption":
            own = [one for one in sink.phases.values() if one.workload.uid == fault.job_uid]
            # Between two looks its pods may have gone: then it waits "again, preempted".
            assert any(one.phase.value == "preempted" or "preempted" in one.reason for one in own)


def test_reclaimed_jobs_are_seen_to_be(watched: tuple[World, KeptIntervals]) -> None:
    world, sink = watched
    hit = {one.job_uid for one in world.truth.attempts if one.ended_by == "spot-reclaim"}
    assert hit or world.scenario.name != "every-fault"
    for uid in hit:
        phases = [one.phase.value for one in sink.phases.values() if one.workload.uid == uid]
        assert "spot-reclaimed" in phases, uid
