"""Deleted in the background, as kubectl does it, an owner goes before its pods: they stay what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memberships import codes, workload
from small_jobs import JOBSET, make, make_pod
from story import Story, running

from kube_objects import at, at_ms, resolver, to_object
from operators_at_work import put_to_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects import Manifest
    from trilens.model.workload import Membership


def _pods(story: Story) -> list[Manifest]:
    return [one for one in story.made.manifests if one["kind"] == "Pod"]


def _owners(story: Story) -> list[Manifest]:
    """From the top down."""
    return [one for one in story.made.manifests if one["kind"] != "Pod"]


def _deployment(story: Story) -> None:
    deployment = make(story.made, "apps/v1", "Deployment", "chat", spec={}, meta={"labels": {"team": "x"}})
    replicas = make(story.made, "apps/v1", "ReplicaSet", "chat-1", deployment)
    for number in range(2):
        make_pod(story.made, f"chat-1-{number}", replicas)


def _jobset(story: Story) -> None:
    put_to_work(JOBSET, story.made.create)


def _members(story: Story) -> dict[str, Membership]:
    return {key.name: member for key, member in story.resolver.memberships().items()}


@pytest.mark.parametrize("job", [_deployment, _jobset])
def test_pods_stay_members_while_their_owners_go_one_after_the_other(
    job: Callable[[Story], None],
) -> None:
    story = Story()
    job(story)
    pods = _pods(story)
    for pod in pods:
        running(pod, 5)
    story.at(10, *story.made.manifests)
    before = _members(story)
    assert len(before) == len(pods)
    assert all(not codes(member) for member in before.values())
    (record,) = story.sink.records.values()
    for second, owner in enumerate(_owners(story)):
        story.without(20 + second, owner)
        assert _members(story) == before, f"without {owner['kind']}"
    for pod in pods:
        pod["metadata"]["deletionTimestamp"] = at(60)
    story.at(30, *pods)
    story.without(40, *pods)
    intervals = story.sink.memberships.values()
    assert [one.to_ms for one in intervals] == [at_ms(40)] * len(pods), "one interval each"
    assert not any(one.membership.doubts for one in intervals)
    (last,) = story.sink.records.values()
    assert (last.team, last.doubts) == (record.team, ())


def test_what_was_a_member_before_a_restart_leaves_as_one() -> None:
    story = Story()
    _deployment(story)
    story.at(10, *story.made.manifests)
    pods = _pods(story)
    for pod in pods:
        pod["metadata"]["deletionTimestamp"] = at(60)
    after = resolver(story.sink)
    after.restore(tuple(story.sink.memberships.values()), tuple(story.sink.phases.values()))
    for pod in pods:
        after.changed(to_object(pod))
    for seconds in (30, 50):  # longer than a new pod waits for its owner
        after.settle(at_ms(seconds))
    for pod in pods:
        after.removed(to_object(pod))
    after.settle(at_ms(55))
    found = [
        (workload(one.membership), one.to_ms, codes(one.membership))
        for one in story.sink.memberships.values()
    ]
    assert found == [(("apps", "Deployment", "chat"), at_ms(55), [])] * 2


def test_an_owner_that_was_never_there_is_doubted_all_the_same() -> None:
    story = Story()
    _deployment(story)
    _, replicas, *pods = story.made.manifests
    story.at(10, *pods)
    story.at(30)
    assert {tuple(codes(member)) for member in _members(story).values()} == {("owner-gone",)}
    story.at(40, replicas)  # it turns up, but its own owner does not
    assert {tuple(codes(member)) for member in _members(story).values()} == {("owner-gone",)}
