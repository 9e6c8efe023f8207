"""Logs of real jobs with faults put into them (gloo_logs/job.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource

LOGS = Path(__file__).parent / "gloo_logs"


@pytest.mark.parametrize(
    ("fault", "cause", "rank"),
    [
        ("raise", "exception", 1),
        ("kill", "killed", 1),
        ("segv", "crashed", 2),
        ("exit", "rank-left", 1),
        ("monitored", "rank-behind", 2),
        ("shape", "mismatched-shape", 1),
        ("op", "mismatched-collective", 1),
        ("mem", "host-out-of-memory", 0),
    ],
)
def test_the_rank_with_the_fault_is_named(fault: str, cause: str, rank: int) -> None:
    log = LOGS / f"{fault}.log"
    verdict = judge_logs([LogSource(log.name, log.read_text().splitlines())])
    assert (verdict.cause, verdict.who.rank) == (cause, rank), verdict
    assert verdict.can_tell


def test_a_rank_that_sleeps_and_is_nowhere_in_the_log_cannot_be_named() -> None:
    """Two ranks wait for a third that never said anything: how many there are, nobody tells."""
    verdict = judge_logs([LogSource("sleep.log", (LOGS / "sleep.log").read_text().splitlines())])
    assert verdict.cause == "collective-timeout"
    assert not verdict.can_tell
    lines = ["world_size=3", *(LOGS / "sleep.log").read_text().splitlines()]
    told = judge_logs([LogSource("sleep.log", lines)])
    assert (told.cause, told.who.rank) == ("rank-behind", 2)
