"""What the logs of a case tell the trees."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from trilens.diagnose.answer import FUNCTIONS, UNKNOWN
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.diagnose.evidence.logs import logs_say
from trilens.diagnose.logs.signs import Depth, Kind, LogClass, Sign, log_classes
from trilens.diagnose.tree import read_tree
from trilens.diagnose.walk import why
from trilens.model.run import ArtifactRecord, RunId
from trilens.model.workload import PodKey

SUBJECT = CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train")
PODS = [PodKey("c", "ml", f"train-{at}", f"u-{at}") for at in range(2)]
OOM = "2026-11-03T10:00:00Z torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
CLOSED = (
    "2026-11-03T10:00:01Z train-0:7:9 [0] misc/socket.cc:49 NCCL WARN socketProgress: "
    "Connection closed by remote peer train-1<41109>"
)


def _case(*logs: LogText, artifacts: tuple[ArtifactRecord, ...] = ()) -> Case:
    return Case(CaseFile(SUBJECT, 0, 60_000, logs=logs, artifacts=artifacts))


def _output(at: int, *lines: str) -> LogText:
    return LogText(LogKind.CONTAINER, "main", lines, f"node-{at}", PODS[at], at)


def test_the_cause_is_answered_with_whom_it_blames() -> None:
    answer = logs_say(_case(_output(0, CLOSED), _output(1, "step 1", OOM)))
    assert answer.values == ("out-of-memory",)
    assert answer.confidence > 0.9
    assert (answer.subject.rank, answer.subject.pod, answer.subject.node) == (1, PODS[1], "node-1")
    assert answer.since_ms == 1_793_700_000_000
    assert answer.facts[0].source == "ml/train-1/main, line 2"
    assert answer.names["log_class"] == "gpu-out-of-memory"
    assert answer.names["log_text"].startswith("Rank 1 on node-1 ran out")


def test_an_xid_in_a_nodes_kernel_log_is_a_ranks() -> None:
    """Containers know themselves by their pods' names, the kernel its node: both GPUs have the same address."""
    pods = [
        _output(
            at,
            f"train-{at}:7:9 [0] NCCL INFO comm 0x1 rank {at} nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE",
        )
        for at in range(2)
    ]
    xid = "NVRM: Xid (PCI:0000:1b:00): 79, pid=7, GPU has fallen off the bus."
    answer = logs_say(_case(*pods, LogText(LogKind.KERNEL, "kernel", (xid,), "node-1")))
    assert answer.values == ("dead-gpu",)
    assert (answer.subject.rank, answer.subject.pod, answer.subject.node) == (1, PODS[1], "node-1")


def test_stacks_that_the_sdk_sent_are_read_too() -> None:
    waits = b'Thread 0x1 (most recent call first):\n  File "/opt/torch/distributed/c10d.py", line 2 in all_reduce\n'
    loads = b'Thread 0x1 (most recent call first):\n  File "/ws/data.py", line 41 in decode\n'
    stacks = tuple(
        ArtifactRecord(
            RunId("r"), rank, 0, 1, 1, "stacks", f"stacks-rank{rank}.txt", loads if rank == 2 else waits
        )
        for rank in range(4)
    )
    answer = logs_say(_case(artifacts=stacks))
    assert (answer.values, answer.subject.rank) == (("rank-behind",), 2)


def test_quiet_logs_are_not_no_logs() -> None:
    assert logs_say(_case(_output(0, "step 1", "step 2"))).values == ("nothing",)
    answer = logs_say(_case())
    assert answer.values == (UNKNOWN,)
    assert answer.missing[0].what == "what train wrote"


def test_what_cannot_be_told_is_unknown_and_says_what_is_missing() -> None:
    answer = logs_say(_case(_output(0, CLOSED)))
    assert answer.values == (UNKNOWN,)
    assert answer.facts
    assert any("log of the rank" in one.remedy or "whole log" in one.remedy for one in answer.missing)


def test_trees_are_told_every_answer_that_it_may_give() -> None:
    assert {"nothing", "wrong-interface", "dead-gpu", "rank-left"} <= FUNCTIONS["logs_say"].answers


FILE = resources.files("trilens.diagnose") / "trees" / "logs.yml"
TREE = replace(read_tree(FILE.read_text(), Path("logs.yml")), name="start")


def _surest(of: LogClass) -> Sign:
    return max(of.signs, key=lambda sign: (sign.kind is Kind.ROOT, sign.sure))


ENDS = {one.family: one for one in log_classes().values() if one.depth is not Depth.OUTCOME}
LINES = {
    **{family: _surest(one).example for family, one in ENDS.items() if one.signs},
    "exception": "RuntimeError: CUDA error: device-side assert triggered",
    "rank-left": "srun: error: n2: task 3: Segmentation fault",
    "nothing": "step 1",
}


@pytest.mark.parametrize("family", sorted(LINES))
def test_each_end_of_the_tree_of_logs_is_reached(family: str) -> None:
    verdicts = why(_case(_output(0, LINES[family])), {"start": TREE})
    assert [one.cause for one in verdicts] == [f"logs-{'quiet' if family == 'nothing' else family}"]
    assert "<" not in verdicts[0].text.replace("<N/A>", "")


def test_without_logs_the_tree_of_logs_cannot_tell() -> None:
    assert [one.cause for one in why(_case(), {"start": TREE})] == ["logs-cannot-tell"]
    assert {*LINES, UNKNOWN} == set(TREE.questions["logs"].answers)
