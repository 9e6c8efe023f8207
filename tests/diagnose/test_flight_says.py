"""What the flight recorders of a case tell the trees."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from flight_dumps import dump, op
from trilens.diagnose.answer import FUNCTIONS, UNKNOWN
from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.evidence.flight import flight_recorder_says
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.tree import read_tree
from trilens.diagnose.walk import why
from trilens.model.run import ArtifactRecord, RankProcess, RunId, WriterId
from trilens.model.workload import PodKey

RANKS = 4
GROUPS = {"0": range(RANKS)}
OVER = [op("all_reduce", 1)]
IN_IT = op("all_reduce", 2, "started")
WAITS = dump([*OVER, IN_IT], GROUPS)
ODD: dict[str, Any] = {
    "never-entered": dump(OVER, GROUPS),
    "mismatched-collective": dump([*OVER, op("broadcast", 2, "started")], GROUPS),
    "mismatched-shape": dump([*OVER, IN_IT | {"input_sizes": [[9]], "output_sizes": [[9]]}], GROUPS),
    "mismatched-dtype": dump([*OVER, IN_IT | {"input_dtypes": ["Half"], "output_dtypes": ["Half"]}], GROUPS),
    "gpu-behind": dump([*OVER, op("all_reduce", 2, "scheduled")], GROUPS),
    "did-not-dump": None,
    "all-same": WAITS,
}  # fmt: skip
FILE = resources.files("trilens.diagnose") / "trees" / "flight.yml"
TREE = replace(read_tree(FILE.read_text(), Path("flight.yml")), name="start")
RUN = RunId("r")


def _artifact(rank: int, told: Any, **more: Any) -> ArtifactRecord:
    given = {"run": RUN, "rank": rank, "attempt": 0, "n": 1, "t_ms": 1000, "kind": "flight-recorder"}
    content = pickle.dumps(told, protocol=2)
    return ArtifactRecord(**(given | {"name": f"trace_rank_{rank}", "content": content} | more))


def _case(*artifacts: ArtifactRecord) -> Case:
    ranks = tuple(
        RankProcess(
            RUN, rank, WriterId(f"w{rank}"), 0, world_size=RANKS, node=f"node-{rank}",
            namespace="ml", pod=f"train-{rank}", pod_uid=f"u-{rank}",
        )
        for rank in range(RANKS)
    )  # fmt: skip
    subject = CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train")
    return Case(CaseFile(subject, 0, 60_000, ranks=ranks, artifacts=artifacts))


def _with_odd(told: Any) -> Case:
    dumps = {rank: told if rank == 1 else WAITS for rank in range(RANKS)}
    return _case(*(_artifact(rank, one) for rank, one in dumps.items() if one is not None))


def test_the_culprit_is_answered_with_its_pod_and_node() -> None:
    answer = flight_recorder_says(_with_odd(ODD["never-entered"]))
    assert answer.values == ("never-entered",)
    assert answer.subject.rank == 1
    assert (answer.subject.pod, answer.subject.node) == (PodKey("c", "ml", "train-1", "u-1"), "node-1")
    assert answer.names["culprits"] == "rank 1"
    assert (answer.names["collective"], answer.names["group"]) == ("all_reduce 2", "0:default_pg")
    assert answer.facts[0].source == "the dumps of 4 of 4 ranks"
    assert answer.since_ms == 1_793_700_002_000


def test_the_last_life_and_the_last_stall_of_a_rank_count() -> None:
    later = _artifact(1, WAITS, n=2, t_ms=9000)
    earlier_life = _artifact(0, ODD["never-entered"], attempt=0, t_ms=9500)
    others = [_artifact(rank, WAITS, attempt=1 if rank == 0 else 0) for rank in (0, 2, 3)]
    answer = flight_recorder_says(_case(_artifact(1, ODD["never-entered"]), later, earlier_life, *others))
    assert answer.values == ("all-same",)
    assert not answer.missing


def test_no_dumps_are_not_all_well() -> None:
    answer = flight_recorder_says(_case())
    assert answer.values == (UNKNOWN,)
    assert "TORCH_FR_BUFFER_SIZE" in answer.missing[0].remedy


def test_ranks_that_sent_nothing_are_known_by_the_size_of_the_run() -> None:
    """Gloo's dumps do not list who is in a group."""
    entries = [op("all_reduce", 2, "scheduled") | {"profiling_name": "gloo:all_reduce"}]
    answer = flight_recorder_says(_case(*(_artifact(rank, dump(entries, {})) for rank in range(3))))
    assert (answer.values, answer.subject.rank) == (("did-not-dump",), 3)


def _circle() -> Case:
    """Ranks 0 and 1 use two groups in different orders."""
    groups = {"a": (0, 1), "b": (0, 1)}
    dumps = [dump([op("all_reduce", 1, "started", group=name)], groups) for name in ("a", "b")]
    return _case(*(_artifact(rank, one) for rank, one in enumerate(dumps)))


@pytest.mark.parametrize("answer", sorted(FUNCTIONS["flight_recorder_says"].answers | {UNKNOWN}))
def test_each_end_of_the_tree_of_dumps_is_reached(answer: str) -> None:
    if answer == "mismatched-order":
        case = _circle()
    elif answer == "nothing-pending":
        case = _case(*(_artifact(rank, dump(OVER, GROUPS)) for rank in range(RANKS)))
    elif answer == UNKNOWN:
        case = _case(_artifact(0, WAITS))
    else:
        case = _with_odd(ODD[answer])
    [verdict] = why(case, {"start": TREE})
    assert verdict.cause == f"flight-{'cannot-tell' if answer == UNKNOWN else answer}"
    assert "<" not in verdict.text + " ".join(verdict.fix)


def test_a_bundle_says_the_same() -> None:
    case = _with_odd(ODD["mismatched-shape"])
    packed = io.BytesIO()
    write_bundle(case.file, packed)
    again = Case(read_bundle(packed))
    assert why(again, {"start": TREE}) == why(case, {"start": TREE})


def test_a_dump_that_cannot_be_read_is_missing_and_the_others_tell() -> None:
    dumps = [_artifact(rank, WAITS) for rank in range(3)]
    broken = _artifact(3, None, content=json.dumps({"version": "2.10", "entries": [3]}).encode())
    answer = flight_recorder_says(_case(*dumps, broken))
    assert answer.values == ("did-not-dump",)
    assert answer.missing[0].what.startswith("trace_rank_3 cannot be read")


def test_the_docs_have_every_reason_and_every_end() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "flight.md").read_text()
    for reason in Reason:
        assert f"| `{reason}` |" in docs
    for end in TREE.ends:
        assert f"| `{end}` |" in docs
