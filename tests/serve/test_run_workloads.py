"""Which workload a process of a run was in, where two clusters have pods of one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trilens.model.life import MembershipInterval
from trilens.model.run import RankProcess, RunId, WriterId
from trilens.model.workload import Membership, PodKey, WorkloadKey
from trilens.serve.run_workloads import doubts_of, members_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from trilens.model.query import QueryGuard
    from trilens.store.workloads import Span


def _there(cluster: str) -> MembershipInterval:
    workload = WorkloadKey(cluster, "ml", "batch", "Job", "train", f"job-{cluster}")
    pod = PodKey(cluster, "ml", "train-0", f"pod-{cluster}")
    return MembershipInterval(Membership(pod, workload, 0), "node-a", 0)


class Pods:
    def __init__(self, *clusters: str) -> None:
        self._there = [_there(cluster) for cluster in clusters]

    def members_among(
        self, pods: Collection[tuple[str, str, str]], span: Span, guard: QueryGuard | None = None
    ) -> list[MembershipInterval]:
        wanted = {uid or (namespace, name) for namespace, name, uid in pods}
        keys = [(one, one.membership.pod) for one in self._there]
        return [one for one, pod in keys if pod.uid in wanted or (pod.namespace, pod.name) in wanted]


def process(cluster: str | None = None, uid: str | None = None) -> RankProcess:
    run, writer = RunId("r"), WriterId("w")
    return RankProcess(
        run, 0, writer, 5, heard_ms=9, namespace="ml", pod="train-0", pod_uid=uid, cluster=cluster
    )


def clusters(one: RankProcess, pods: Pods) -> list[str]:
    return [member.workload.cluster for member in members_of([one], pods).values()]


@pytest.mark.parametrize(
    ("one", "there", "expected"),
    [
        (process(), ("east",), ["east"]),  # an older SDK, which says none
        (process("west"), ("east", "west"), ["west"]),
        (process("east"), ("east", "west"), ["east"]),
        (process(uid="pod-east"), ("east", "west"), ["east"]),
        (process("west", uid="pod-west"), ("east", "west"), ["west"]),
    ],
)
def test_the_one_of_its_cluster(one: RankProcess, there: tuple[str, ...], expected: list[str]) -> None:
    assert clusters(one, Pods(*there)) == expected
    assert doubts_of([one], Pods(*there)) == []


def test_which_of_two_it_is_in_is_not_guessed() -> None:
    both = Pods("east", "west")
    assert clusters(process(), both) == []
    [doubt] = doubts_of([process()], both)
    assert doubt == (
        "the pod ml/train-0 of rank 0 may be one of east and west: the program does not say which; "
        "set TRILENS_CLUSTER"
    )


def test_a_pod_of_another_cluster_is_not_its_own() -> None:
    """Else a token for one cluster could tell of the workloads of another."""
    both = Pods("east", "west")
    assert clusters(process("west", uid="pod-east"), both) == []
    [doubt] = doubts_of([process("west", uid="pod-east")], both)
    assert doubt == "the pod ml/train-0 of rank 0 is one of east, but told as of west: it counts for neither"


def test_a_run_in_two_clusters_may_be_two() -> None:
    told = [process("east"), process("west")]
    assert doubts_of(told, Pods("east", "west")) == [
        "processes of this run are in east and west: two runs may have one id"
    ]
