"""What schedulers say, in their own words, read: what is in the way, on how many nodes."""

from __future__ import annotations

import json

import pytest

from servers import require_corpus
from trilens.diagnose.scheduling.messages import Blocker, read_message

# The corpus calls the taint of the control plane a taint like any other.
_IN_CORPUS = {Blocker.CONTROL_PLANE: Blocker.TAINT}


def _said(message: str, **more: str) -> list[tuple[str, int | None, str]]:
    return [(one.blocker.value, one.nodes, one.detail) for one in read_message(message, **more)]


def test_the_corpus_comes_out_as_stated() -> None:
    wrong = []
    for line in require_corpus("scheduling", "messages.jsonl").read_text().splitlines():
        told = json.loads(line)
        found = read_message(told["message"], reporter=told["reporter"], reason=told.get("reason", ""))
        causes = {_IN_CORPUS.get(one.blocker, one.blocker).replace("-", "_") for one in found}
        if causes != set(told["cause"].split(" ")[0].split("+")):
            wrong.append((told["cause"], causes))
    assert wrong == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "0/6 nodes are available: 1 node(s) had taint {node-role.kubernetes.io/master: }, that the pod "
            "didn't tolerate, 5 Insufficient nvidia.com/gpu.",
            [
                ("control-plane", 1, "node-role.kubernetes.io/master"),
                ("insufficient-gpu", 5, "nvidia.com/gpu"),
            ],
            id="1.20",
        ),
        pytest.param(
            "No nodes are available that match all of the following predicates:: Insufficient cpu (4), "
            "NoVolumeZoneConflict (2)",
            [("insufficient-resource", 4, "cpu"), ("volume", 2, "")],
            id="1.8",
        ),
        pytest.param(
            "0/10 nodes are available: 1 Insufficient cpu, 2 Insufficient memory, 8 node(s) had untolerated "
            "taint(s). preemption: 0/10 nodes are available: 10 Preemption is not helpful for scheduling.",
            [("insufficient-resource", 1, "cpu"), ("insufficient-resource", 2, "memory"), ("taint", 8, "")],
            id="1.34",
        ),
        pytest.param(
            "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node "
            "affinity/selector. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is "
            "not helpful for scheduling.",
            [("claim", 1, ""), ("selector", 1, "")],
            id="dynamic-resources",
        ),
        pytest.param(
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint "
            "{nvidia.com/gpu: present}.",
            [("cordoned", 1, ""), ("taint", 2, "nvidia.com/gpu: present")],
            id="cordoned",
        ),
        pytest.param(
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            [("volume", None, "")],
            id="of-all-nodes",
        ),
        pytest.param(
            "no nodes with enough resources were found: 2 node(s) had untolerated taint(s). \n5 node(s) "
            "didn't have enough resources: GPUs.",
            [("taint", 2, ""), ("insufficient-gpu", 5, "GPUs")],
            id="kai",
        ),
        pytest.param(
            "all nodes are unavailable: 3 Insufficient nvidia.com/gpu.",
            [("insufficient-gpu", 3, "nvidia.com/gpu")],
            id="volcano",
        ),
        pytest.param(
            "0/3 nodes are available: 3 pre-filter pod a cannot find enough sibling pods, current pods "
            "number: 2, minMember of group: 3.",
            [("gang-not-ready", 3, "")],
            id="coscheduling",
        ),
        pytest.param(
            "3 nodes CardInsufficientMemory(node-a,node-b,node-c)", [("vgpu-unfit", None, "")], id="hami"
        ),
        pytest.param("", [], id="nothing"),
    ],
)
def test_messages_of_many_versions_and_schedulers(
    message: str, expected: list[tuple[str, int | None, str]]
) -> None:
    found = [(blocker, nodes, detail.removesuffix(":").strip()) for blocker, nodes, detail in _said(message)]
    assert found == expected


def test_what_is_not_known_is_kept_and_not_taken_for_something_else() -> None:
    assert _said("0/2 nodes are available: 2 node(s) sulk.") == [("other", 2, "")]
    assert _said("sulking", reporter="cluster-autoscaler") == [("other", None, "")]


def test_an_autoscaler_that_says_why_it_does_not_help_is_no_scheduler() -> None:
    said = "pod didn't trigger scale-up: 2 Insufficient nvidia.com/gpu, 1 max node group size reached"
    assert _said(said, reporter="cluster-autoscaler") == [("autoscaler-at-limit", None, "")]
    assert _said("pod triggered scale-up: [{gpu 1->2 (max: 2)}]") == [("autoscaler-scaling", None, "")]
