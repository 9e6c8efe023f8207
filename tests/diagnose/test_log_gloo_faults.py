"""Logs of real jobs with faults put into them (gloo_logs/job.py)."""

from __future__ import annotations

import pytest
from bench.verdicts.gloo import LOG_FAULTS, LOGS

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource


@pytest.mark.parametrize("fault", sorted(LOG_FAULTS))
def test_the_rank_with_the_fault_is_named(fault: str) -> None:
    log = LOGS / f"{fault}.log"
    verdict = judge_logs([LogSource(log.name, log.read_text().splitlines())])
    assert (verdict.cause, verdict.who.rank) == LOG_FAULTS[fault], verdict
    assert verdict.can_tell


def test_a_rank_that_sleeps_and_is_nowhere_in_the_log_cannot_be_named() -> None:
    """Two ranks wait for a third that never said anything: how many there are, nobody tells."""
    verdict = judge_logs([LogSource("sleep.log", (LOGS / "sleep.log").read_text().splitlines())])
    assert verdict.cause == "collective-timeout"
    assert not verdict.can_tell
    lines = ["world_size=3", *(LOGS / "sleep.log").read_text().splitlines()]
    told = judge_logs([LogSource("sleep.log", lines)])
    assert (told.cause, told.who.rank) == ("rank-behind", 2)
