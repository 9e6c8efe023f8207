"""Long lists stay readable, and nothing that differs is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.cli.folding import WHOLE, fold, one_or_count, ranges
from trilens.cli.workload_text import show_workload

if TYPE_CHECKING:
    import pytest


def test_numbers_as_ranges() -> None:
    assert ranges([]) == ranges([None]) == "-"
    assert ranges([3]) == "3"
    assert ranges([9, 0, 1, 2, None, 5, 8, 7, 7]) == "0-2, 5, 7-9"


def test_one_value_or_how_many() -> None:
    assert one_or_count([None], "nodes") == "-"
    assert one_or_count(["a", None, "a"], "nodes") == "a"
    assert one_or_count(["a", "b", "a"], "nodes") == "2 nodes"


def test_few_rows_are_left_alone_and_few_that_differ_too() -> None:
    few = [{"attempt": 0, "n": n} for n in range(WHOLE)]
    assert fold(few, lambda one: 0, every=False) == ([[one] for one in few], 0)
    many = [{"attempt": 0, "n": n} for n in range(WHOLE + 1)]
    groups, left_out = fold(many, lambda one: one["n"] < 3, every=False)
    assert (groups, left_out) == ([*([one] for one in many[:3]), many[3:]], 0)
    assert fold(many, lambda one: 0, every=True)[0] == [[one] for one in many]


def test_a_job_of_hundreds_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    def member(rank: int, attempt: int) -> dict[str, Any]:
        left = None if attempt == 30 else 1_768_392_000_000
        return {
            "attempt": attempt,
            "node_rank": rank,
            "role": "worker",
            "pod": f"train-{rank}",
            "node": f"node-{rank}",
            "ready": rank != 77,
            "from_ms": 1_768_392_000_000,
            "to_ms": left,
        }

    span = {"phase": "running", "reason": "", "from_ms": 1_768_392_000_000, "seconds": 60.0}
    workload = {
        **dict.fromkeys(("group", "gone", "team", "cost_centre", "experiment", "queue")),
        "cluster": "lab",
        "namespace": "ml",
        "kind": "Job",
        "name": "train",
        "attempt": 30,
        "phase": span,
        "members": {"total": 512, "ready": 511},
        "doubts": [],
    }
    show_workload(
        {
            "workload": workload,
            "spent": None,
            "members": [member(rank, attempt) for attempt in (29, 30) for rank in range(512)],
            "gpus": [],
            "phases": [{**span, "attempt": attempt} for attempt in range(31)],
            "seconds_in_phase": {"running": 1860.0},
            "steps": [],
        },
        [],
        0.0,
        every=False,
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[6:10] == [
        "attempt node rank role pod node state since until",
        "30 0-76, 78-511 worker 511 pods 511 nodes ready 2026-01-14T12:00:00Z",
        "30 77 worker train-77 node-77 not ready 2026-01-14T12:00:00Z",
        "and 512 of earlier attempts; --all shows each",
    ]
    assert lines[11:14] == [
        "phases",
        "and 11 before these; --all shows each",
        "attempt phase since for reason",
    ]
    assert len(lines) < 40
