"""Alive or dead, since when and how, and how long it will take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simulated_job import Job
from trilens.lineage.naming import meant
from trilens.lineage.pace import pace
from trilens.lineage.standing import RunState, standings
from trilens.model.run import Ending, RunFacts, RunId
from trilens.model.run_sums import StepTime

if TYPE_CHECKING:
    from trilens.lineage.standing import Standing


def standing(job: Job, later_s: float = 1.0) -> Standing:
    processes = job.source.processes([job.run])
    found = standings(job.source.facts, processes, job.source, job.now_ms + round(later_s * 1000))
    return found[job.run]


def running() -> Job:
    job = Job()
    job.start(2)
    job.train(30)
    return job


def test_one_that_runs() -> None:
    found = standing(running())
    assert (found.state, found.since_ms, found.step, found.ranks, found.attempts) == (
        RunState.RUNNING,
        None,
        30,
        2,
        1,
    )
    assert found.values == {"loss": 2.0}
    assert found.pace is not None
    assert found.pace.step_s == pytest.approx(1.0)
    assert found.pace.samples_per_second == pytest.approx(4.0)


def test_one_that_does_no_steps_any_more() -> None:
    job = running()
    found = standing(job, later_s=120)
    assert (found.state, found.since_ms) == (RunState.STALLED, job.now_ms + 900)
    assert found.time_left is None, "nobody knows when a stall ends"
    job.source.told_processes[:] = [replace(one, phase="validation") for one in job.source.told_processes]
    assert standing(job, later_s=120).state is RunState.RUNNING


@pytest.mark.parametrize(
    ("how", "state"),
    [
        (Ending.FINISHED, RunState.FINISHED),
        (Ending.FAILED, RunState.FAILED),
        (Ending.LOST, RunState.LOST),
    ],
)
def test_one_that_ended(how: Ending, state: RunState) -> None:
    job = running()
    job.crash(how)
    found = standing(job)
    assert (found.state, found.since_ms, found.dead) == (state, job.now_ms, ())


def test_the_rank_that_failed_first_says_why() -> None:
    job = running()
    job.crash(Ending.LOST)
    first, second = job.source.told_processes
    job.source.told_processes[:] = [
        first,
        replace(second, ending=Ending.FAILED, error="out of memory", ended_ms=job.now_ms - 500),
    ]
    found = standing(job)
    assert (found.state, found.error, found.error_rank) == (RunState.FAILED, "out of memory", 1)


def test_a_dead_rank_among_the_living_is_named() -> None:
    job = running()
    first, second = job.source.told_processes
    lost = replace(second, ending=Ending.LOST, ended_ms=job.now_ms)
    job.source.told_processes[:] = [first, lost]
    found = standing(job)
    assert (found.state, found.dead) == (RunState.RUNNING, (1,))


def test_a_job_that_came_back_with_fewer_ranks_has_no_dead_ones() -> None:
    job = running()
    job.crash()
    job.start(1)
    job.train(3)
    found = standing(job)
    assert (found.state, found.ranks, found.dead, found.attempts) == (RunState.RUNNING, 1, (), 2)


def test_nobody_told_of_a_process() -> None:
    job = Job()
    assert standing(job).state is None


def test_a_process_that_went_back_is_as_fast_as_since_then() -> None:
    job = running()
    saved = job.save()
    job.now_ms += 3_600_000
    job.train(10)
    job.load(saved)
    job.train(5)
    found = standing(job)
    assert found.step == 35
    assert found.pace is not None
    assert found.pace.step_s == pytest.approx(1.0)


def steps(lengths: list[float]) -> list[StepTime]:
    found, at = [], 0.0
    for number, length in enumerate(lengths):
        found.append(StepTime(RunId("r"), number, number, round(at * 1e6), round(length * 9e5), None, None))
        at += length
    return found


def test_a_pace() -> None:
    assert pace(steps([1.0])) is None
    assert pace(steps([1.0] * 5)) == (1.0, None, None)


@pytest.mark.parametrize("counts_from", [0, 1])
def test_steps_done_whatever_number_the_first_one_has(counts_from: int) -> None:
    job = Job()
    job.source.facts[:] = [replace(one, total_steps=40) for one in job.source.facts]
    job.start(2)
    job.step = counts_from - 1
    job.train(18)
    saved = job.save()
    job.train(2)
    found = standing(job)
    assert (found.step, found.steps_done, found.progress) == (19 + counts_from, 20, 0.5)
    assert found.time_left is not None
    assert found.time_left.seconds == pytest.approx(20.0, rel=0.1)
    job.crash()
    job.start(2)
    job.load(saved)
    job.train(12)
    assert (standing(job).steps_done, standing(job).progress) == (30, 0.75)
    job.train(10)
    job.crash(Ending.FINISHED)
    found = standing(job)
    assert (found.steps_done, found.progress, found.time_left) == (40, 1.0, None)


def test_what_a_name_means() -> None:
    runs = [
        RunFacts(RunId("abc"), 3, "sweep", "abcd"),
        RunFacts(RunId("abcd"), 2, "sweep", "first"),
        RunFacts(RunId("xyz"), 1, None, "first"),
    ]

    def found(written: str) -> list[str]:
        return [one.run for one in meant(runs, written)]

    assert found("abc") == ["abc"]
    assert found("abcd") == ["abcd"]
    assert found("ab") == ["abc", "abcd"]
    assert found("first") == ["abcd", "xyz"]
    assert found("sweep/first") == ["abcd"]
    assert found("/first") == ["xyz"]
    assert found("none") == []
