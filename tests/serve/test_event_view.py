"""Whom an event hit, by who was where at that time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.life import MembershipInterval
from trilens.model.workload import Membership, PodKey, WorkloadKey
from trilens.serve.event_view import answers

if TYPE_CHECKING:
    from collections.abc import Collection

    from trilens.store.workloads import Span

T_MS = 10_000_000


class Seats:
    def __init__(self, *known: MembershipInterval) -> None:
        self._known = [*known]

    def members_among(
        self, pods: Collection[tuple[str, str, str]], span: Span, guard: object = None
    ) -> list[MembershipInterval]:
        assert pods
        return self._known


def seat(
    workload: str, uid: str, node: str, from_ms: int, to_ms: int | None, cluster: str = "lab"
) -> MembershipInterval:
    key = WorkloadKey(cluster, "ml", "batch", "Job", workload, workload)
    return MembershipInterval(Membership(PodKey(cluster, "ml", "train-0", uid), key), node, from_ms, to_ms)


def hit(victim: Victim, *known: MembershipInterval, cluster: str = "") -> str | None:
    event = EventRecord("gpu-1", "1", T_MS, EventKind.XID, 31, "", *[None] * 8, (victim,), cluster=cluster)
    [answer] = answers([event], Seats(*known), None)
    workload = answer.victims[0].workload
    return workload.name if workload else None


def test_a_uid_names_the_pod() -> None:
    victim = Victim("ml", "train-0", "u1")
    assert hit(victim, seat("a", "u1", "gpu-1", 0, None), seat("b", "u2", "gpu-1", 0, None)) == "a"
    assert hit(victim, seat("b", "u2", "gpu-1", 0, None)) is None


def test_without_a_uid_the_name_counts_on_that_node_at_that_time() -> None:
    victim = Victim("ml", "train-0", "")
    here = seat("a", "u1", "gpu-1", 0, None)
    assert hit(victim, seat("b", "u2", "gpu-9", 0, None, "other"), here) == "a"
    before = seat("b", "u2", "gpu-1", 0, T_MS - 5_000)
    assert hit(victim, before, seat("a", "u1", "gpu-1", T_MS - 1_000, None)) == "a"


def test_of_two_clusters_that_have_it_on_such_a_node_the_events_own() -> None:
    victim = Victim("ml", "train-0", "")
    both = seat("a", "u1", "gpu-1", 0, None, "east"), seat("b", "u2", "gpu-1", 0, None, "west")
    assert hit(victim, *both, cluster="west") == "b"
    assert hit(victim, *both, cluster="elsewhere") is None
    assert hit(victim, *both) is None  # it may be either
    assert hit(victim, both[0]) == "a"


def test_a_fault_just_after_the_end_is_what_ended_it_and_a_later_one_is_not() -> None:
    victim = Victim("ml", "train-0", "u1")
    assert hit(victim, seat("a", "u1", "gpu-1", 0, T_MS - 3_000)) == "a"
    assert hit(victim, seat("a", "u1", "gpu-1", 0, T_MS - 300_000)) is None
    assert hit(victim, seat("a", "u1", "gpu-1", T_MS + 300_000, None)) is None
