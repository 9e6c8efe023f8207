"""Who was the first of a job to go: one with a reason of its own before those that only follow another."""

from __future__ import annotations

import pytest

from run_records import process
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.evidence.departures import first_to_go
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.run import Ending, RankProcess

NOW_MS = 1_000_000
CLOSED = "RuntimeError: [gloo] Connection closed by peer [10.0.0.2]:4211"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def _failed(rank: int, at_ms: int, error: str) -> RankProcess:
    return process(rank, ending=Ending.FAILED, ended_ms=at_ms, heard_ms=at_ms, error=error)


def _lost(rank: int, heard_ms: int) -> RankProcess:
    return process(rank, ending=Ending.LOST, heard_ms=heard_ms)


def _case(*ranks: RankProcess, findings: tuple[FindingInterval, ...] = ()) -> Case:
    subject = CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train")
    return Case(CaseFile(subject, 0, NOW_MS, ranks=ranks, findings=findings))


@pytest.mark.parametrize(
    ("ranks", "how", "rank"),
    [
        pytest.param(
            [_failed(0, 900_000, CLOSED), _failed(3, 900_900, OOM)], "out-of-memory", 3, id="said-so-later"
        ),
        pytest.param(
            [_failed(1, 900_000, "KeyError: 'x'"), _failed(2, 900_400, "ValueError: lost a worker")],
            "exception",
            1,
            id="the-earlier-of-two-reasons",
        ),
        pytest.param([_lost(5, 880_000), _failed(1, 900_000, CLOSED)], "killed", 5, id="killed-and-follower"),
        pytest.param(
            [_lost(5, 880_000), _failed(1, 900_000, "KeyError: 'x'")], "killed", 5, id="killed-long-before"
        ),
        pytest.param(
            [_lost(5, 899_000), _failed(1, 900_000, "KeyError: 'x'")],
            "exception",
            1,
            id="killed-by-its-launcher",
        ),
        pytest.param(
            [_failed(0, 900_000, CLOSED), _failed(1, 900_001, CLOSED)], "follows", 0, id="only-followers"
        ),
        pytest.param([_failed(0, 900_000, "")], "exit-code", 0, id="without-a-word"),
        pytest.param(
            [_failed(0, 900_000, "RuntimeError: CUDA error: unspecified launch failure")],
            "gpu-error",
            0,
            id="cuda",
        ),
    ],
)
def test_the_first_with_a_reason(ranks: list[RankProcess], how: str, rank: int) -> None:
    answer = first_to_go(_case(*ranks))
    assert (answer.values, answer.subject.rank) == ((how,), rank)


def test_a_life_that_was_begun_again_is_past() -> None:
    again = process(0, attempt=1, heard_ms=NOW_MS)
    assert first_to_go(_case(_failed(0, 900_000, OOM), again)).values == ("nobody",)


def test_one_whose_interpreter_is_locked_has_not_gone() -> None:
    locked = Finding(
        "D001", FindingKind.STALL, Subject(rank=5), Severity.CRITICAL, "gil-held", 900_000, "locked", ""
    )
    found = (FindingInterval(locked, 910_000, NOW_MS),)
    assert first_to_go(_case(_lost(5, 880_000), findings=found)).values == ("nobody",)
    assert first_to_go(_case(_lost(5, 880_000))).values == ("killed",)


def test_where_nothing_is_known_nobody_says_that_all_are_there() -> None:
    answer = first_to_go(_case())
    assert answer.values == ("unknown",)
    assert answer.missing
