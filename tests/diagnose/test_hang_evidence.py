"""What decides why a job hangs where several things tell of it: dumps of ranks, what is over, what is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from bench.verdicts.gloo import FLIGHTS, recorded

from run_records import RUN, process
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSeries, CaseSubject, SubjectKind
from trilens.diagnose.walk import why
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.run import ArtifactRecord, Ending

NOW_MS = 1_000_000
HEARD = {"gpu-utilization": (CaseSeries({"UUID": "GPU-1"}, (NOW_MS - 5_000,), (1.0,)),)}
SUBJECT = CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train")
RANKS = tuple(process(rank, heard_ms=NOW_MS, step=40, world_size=4, node=f"n{rank}") for rank in range(4))
CASE = CaseFile(SUBJECT, 0, NOW_MS, ranks=RANKS, series=HEARD)


def _found(kind: FindingKind, cause: str, *, rank: int | None = None, over: bool = False) -> FindingInterval:
    finding = Finding(
        "D000", kind, Subject(rank=rank), Severity.CRITICAL, cause, NOW_MS - 60_000, f"{kind}: {cause}", ""
    )
    return FindingInterval(finding, NOW_MS - 50_000, NOW_MS, NOW_MS - 10_000 if over else None)


HANG = _found(FindingKind.HANG, "all-waiting")


def _with_dumps(fault: str) -> CaseFile:
    dumps, stacks = recorded(FLIGHTS / f"{fault}.json")
    files = [
        ArtifactRecord(
            RUN, rank, 0, 0, NOW_MS, "flight-recorder", f"trace_rank_{rank}", json.dumps(one).encode()
        )
        for rank, one in dumps.items()
    ]
    files += [
        ArtifactRecord(RUN, rank, 0, 1, NOW_MS, "stacks", f"stacks-rank{rank}.txt", text.encode())
        for rank, text in stacks.items()
    ]
    return replace(CASE, artifacts=tuple(files), findings=(HANG,))


@pytest.mark.parametrize(
    ("fault", "cause", "rank"),
    [
        ("another_shape", "flight-mismatched-shape", 1),
        ("another_collective", "flight-mismatched-collective", 1),
        ("rank_sleeps", "flight-never-entered", 2),
    ],
)
def test_dumps_of_real_ranks_settle_it(fault: str, cause: str, rank: int) -> None:
    first, *_ = why(Case(_with_dumps(fault)))
    assert (first.cause, first.subject.rank) == (cause, rank)
    assert first.confidence >= 0.7
    assert [asked.tree for asked in first.way][-1] == "flight"


def test_a_rank_that_said_why_it_went_is_the_root_of_a_collective_that_does_not_end() -> None:
    raised = process(
        1, ending=Ending.FAILED, ended_ms=NOW_MS - 60_000, error="KeyError: 'x'", heard_ms=NOW_MS
    )
    ranks = tuple(raised if one.rank == 1 else one for one in RANKS)
    first, *_ = why(Case(replace(_with_dumps("rank_raised"), ranks=ranks)))
    assert (first.cause, first.subject.rank) == ("rank-raised", 1)


def test_what_is_over_hides_nothing_that_is_open() -> None:
    crash = _found(FindingKind.CRASH, "exception", rank=2, over=True)
    hot = _found(FindingKind.THROTTLING, "thermal")
    assert [one.cause for one in why(Case(replace(CASE, findings=(crash, hot))))] == ["gpu-too-hot"]


def test_where_nothing_is_open_what_was_is_told() -> None:
    crash = _found(FindingKind.CRASH, "exception", rank=2, over=True)
    [verdict] = why(Case(replace(CASE, findings=(crash,))))
    assert (verdict.cause, verdict.subject.rank) == ("rank-raised", 2)
    assert "it is over" in verdict.way[-1].facts[0].text


def test_what_only_follows_is_no_verdict_of_its_own() -> None:
    """Whoever has fallen makes the others wait, and a job that waits is slower."""
    slow = _found(FindingKind.STRAGGLER, "compute", rank=1)
    found = (_found(FindingKind.CRASH, "exception", rank=2), HANG, slow)
    [verdict] = why(Case(replace(CASE, findings=found)))
    assert (verdict.cause, verdict.subject.rank) == ("rank-raised", 2)


def test_two_things_at_once_are_two_verdicts() -> None:
    crash, nan = _found(FindingKind.CRASH, "exception", rank=2), _found(FindingKind.DIVERGENCE, "nan")
    found = {one.cause for one in why(Case(replace(CASE, findings=(crash, nan))))}
    assert found == {"rank-raised", "loss-not-a-number"}


def test_a_part_of_evidence_that_is_missing_makes_it_less_sure_and_never_a_no() -> None:
    first, *_ = why(Case(replace(CASE, findings=(HANG,), series={})))
    assert first.confidence < 0.5
    assert {one.what.split()[0] for one in first.missing} >= {"faults", "errors", "what", "how"}
