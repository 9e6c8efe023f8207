"""What a detector remembers of a job, and when it forgets it."""

from __future__ import annotations

from trilens.detect.job_memory import FORGET_MS, JobMemory
from trilens.detect.scene import JobView

NOW_MS = 1_800_000_000_000


def _job(name: str) -> JobView:
    return JobView(None, None, 0, None, None, serves=False, name=name)


def test_it_is_remembered_by_what_the_job_is_called() -> None:
    memory: JobMemory[str] = JobMemory()
    assert memory.get(_job("a"), NOW_MS) is None
    assert memory.put(_job("a"), NOW_MS, "known") == "known"
    assert memory.get(_job("a"), NOW_MS) == "known"
    assert memory.get(_job("b"), NOW_MS) is None


def test_who_was_not_asked_about_for_an_hour_is_forgotten_and_others_are_not() -> None:
    memory: JobMemory[str] = JobMemory()
    memory.put(_job("ended"), NOW_MS, "old")
    memory.put(_job("lasts"), NOW_MS, "kept")
    assert memory.get(_job("lasts"), NOW_MS + FORGET_MS // 2) == "kept"
    later_ms = NOW_MS + FORGET_MS + 1
    assert memory.get(_job("lasts"), later_ms) == "kept"
    assert memory.get(_job("ended"), later_ms) is None


def test_nothing_is_held_of_jobs_that_nobody_asks_about_any_more() -> None:
    memory: JobMemory[str] = JobMemory()
    for hour in range(10):
        at_ms = NOW_MS + 2 * hour * FORGET_MS
        if memory.get(_job(f"job-{hour}"), at_ms) is None:
            memory.put(_job(f"job-{hour}"), at_ms, "known")
    assert len(memory) == 1


def test_asking_at_the_edge_of_the_hour_keeps_it() -> None:
    memory: JobMemory[str] = JobMemory()
    memory.put(_job("a"), NOW_MS, "known")
    for hours in range(1, 4):
        assert memory.get(_job("a"), NOW_MS + hours * FORGET_MS) == "known"
