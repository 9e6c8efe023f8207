"""What a checkpoint contains, against a job that keeps count itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_runs import in_portion
from simulated_job import Done, Job
from trilens.lineage import ways
from trilens.lineage.batches import batches_of
from trilens.lineage.history import History
from trilens.lineage.stretches import stretches
from trilens.model.run import RankProcess, RunId, WriterId
from trilens.model.run_sums import AttemptSpan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.lineage.history import Part


def steps_of(history: History, parts: Iterable[Part]) -> list[Done]:
    """Each step as often as the parts name it."""
    found = []
    for part in parts:
        of_run = history.of_run(part.run)
        for portion in of_run.portions(part):
            found += [
                (one.run, one.rank, one.attempt, one.n)
                for one in history.source.steps(part.run, part.first_step, part.last_step)
                if in_portion(one, portion)
            ]
    return found


def check(job: Job) -> None:
    """Three ways to ask the same: portions for sums, batches one by one, and whether a step is in it."""
    history = History(job.source, job.run)
    for saved in job.saved:
        parts = history.inside(saved.record)
        assert sorted(steps_of(history, parts)) == sorted(saved.inside), saved.record
        batches = [(one.run, one.rank, one.attempt, one.n) for one in batches_of(history, parts)]
        assert sorted(batches) == sorted(saved.inside), saved.record
        assert {done for done in saved.inside if done[0] == job.run} == {
            (one.run, one.rank, one.attempt, one.n)
            for one in job.source.told_steps
            if one.run == job.run
            and (stretch := history.where(one.rank, one.attempt, one.n)) is not None
            and history.contains(saved.record, stretch, one.step)
        }
    assert sorted(steps_of(history, history.now())) == sorted(job.trained)


def test_a_crash_and_what_was_replayed() -> None:
    job = Job()
    job.start(2)
    job.train(400)
    at_400 = job.save()
    job.train(100)
    job.crash()
    job.start(2, at_400)
    job.train(300)
    at_700 = job.save()
    check(job)
    history = History(job.source, job.run)
    inside = history.inside(at_700.record)
    assert [part[1:] for part in inside] == [(0, 1, 400), (1, 401, 700)]
    assert [part[1:] for part in history.thrown_away(inside, 1)] == [(0, 401, 500)]
    assert [portion for part in inside for portion in history.portions(part)] == [
        (0, 1, 400, None, None, None),
        (1, 401, 700, None, None, None),
    ]


def test_a_rank_that_fell_over_before_its_first_step() -> None:
    """Its attempts are counted differently from those of the others."""
    job = Job()
    job.start(3)
    job.dies_before_its_first_step(2)
    job.train(10)
    saved = job.save()
    job.train(5)
    job.crash()
    job.start(3, saved)
    job.train(5)
    job.save()
    check(job)
    history = History(job.source, job.run)
    assert [stretch.attempts for stretch in history.stretches] == [[0, 1], [1, 2]]


def test_more_ranks_and_fewer() -> None:
    job = Job()
    job.start(2)
    job.train(10)
    saved = job.save()
    job.train(5)
    job.crash()
    job.start(4, saved)
    job.train(10)
    saved = job.save()
    job.crash()
    job.start(1, saved)
    job.train(3)
    job.save()
    check(job)


def test_a_process_that_goes_back_by_itself() -> None:
    job = Job()
    job.start(2)
    job.train(10)
    saved = job.save()
    job.train(7)
    job.load(saved)
    job.train(4)
    job.save()
    check(job)
    history = History(job.source, job.run)
    assert [(one.index, one.attempts) for one in history.stretches] == [(0, [0]), (1, [0])]


def test_checkpoints_named_after_the_step_to_come() -> None:
    job = Job(counts_done=True)
    job.start(2)
    job.train(10)
    saved = job.save()
    job.train(5)
    job.crash()
    job.start(2, saved)
    job.train(5)
    job.save()
    check(job)


def test_a_run_that_begins_with_another_runs_checkpoint() -> None:
    base = Job()
    base.start(2)
    base.train(10)
    base.save()
    base.train(3)
    base.crash()
    base.start(2, base.saved[0])
    base.train(10)
    best = base.save()
    tuned = Job(source=base.source, run=RunId("run-b"), now_ms=base.now_ms)
    tuned.start(1, best)
    tuned.train(5)
    last = tuned.save()
    check(tuned)
    parts = History(base.source, tuned.run).inside(last.record)
    assert [(part.run, part.stretch, part.first_step, part.last_step) for part in parts] == [
        ("run-a", 0, 1, 10),
        ("run-a", 1, 11, 20),
        ("run-b", 0, 1, 5),
    ]


def test_a_failed_checkpoint_is_not_what_was_loaded() -> None:
    job = Job()
    job.start(1)
    job.train(10)
    good = job.save(path="/ckpt/last")
    job.train(5)
    job.save(path="/ckpt/last", ok=False)
    job.train(1)
    job.crash()
    job.start(1, good)
    job.train(10)
    job.save()
    check(job)


def test_a_failed_write_over_a_good_one_is_not_what_was_loaded() -> None:
    job = Job()
    job.start(1)
    job.train(10)
    good = job.save(path="/ckpt/last")
    job.crash()
    job.start(1)
    job.train(10)
    job.save(path="/ckpt/last", ok=False)
    job.crash()
    job.start(1, good)
    job.train(2)
    job.save()
    check(job)


def test_of_one_path_the_step_that_was_loaded_counts() -> None:
    job = Job()
    job.start(1)
    job.train(5)
    older = job.save(path="/ckpt/last")
    job.train(5)
    job.save(path="/ckpt/last")
    job.crash()
    job.start(1, older)
    job.train(2)
    job.save()
    check(job)


def test_a_load_while_the_first_step_waits_for_its_data() -> None:
    """Such a step began before the load was told."""
    job = Job()
    job.start(2)
    job.train(4)
    saved = job.save()
    job.train(2)
    job.crash()
    job.start(2, saved)
    job.train(3)
    steps = job.source.told_steps
    steps[:] = [
        replace(one, start_us=one.start_us - 2_000_000, duration_us=one.duration_us + 2_000_000)
        if (one.attempt, one.n) == (1, 0)
        else one
        for one in steps
    ]
    job.save()
    check(job)
    history = History(job.source, job.run)
    assert [origin.how for origin in history.origins] == ["scratch", "loaded"]


def span(rank: int, attempt: int, first: int, last: int, start_s: int) -> AttemptSpan:
    count = last - first + 1
    end_us = (start_s + count) * 1_000_000
    return AttemptSpan(
        rank, attempt, first, last, count, None, None, start_s * 1_000_000 + rank, end_us, 0, count - 1
    )


def test_a_new_rank_may_be_the_first_to_step_after_a_restart() -> None:
    found = stretches([span(0, 0, 1, 5, 100), span(1, 0, 3, 5, 199), span(0, 1, 3, 5, 200)], [], [])
    assert [[(one.rank, one.attempt) for one in stretch.spans] for stretch in found] == [
        [(0, 0)],
        [(0, 1), (1, 0)],
    ]


def test_a_rank_that_lives_on_does_not_take_the_new_ones_in() -> None:
    """It hangs, and still says that it lives, while the job goes on elsewhere with more ranks."""

    def life(rank: int, attempt: int, world_size: int, heard_s: int) -> RankProcess:
        writer = WriterId(f"{rank}-{attempt}")
        return RankProcess(
            RunId("r"), rank, writer, 0, attempt, world_size=world_size, heard_ms=heard_s * 1000
        )

    spans = [span(0, 0, 1, 5, 100), span(1, 0, 3, 5, 199), span(0, 1, 3, 5, 200)]
    lives = [life(0, 0, 1, 300), life(1, 0, 2, 300), life(0, 1, 2, 300)]
    assert [len(one.spans) for one in stretches(spans, lives, [])] == [1, 2]


@pytest.mark.parametrize("ahead_s", [60, -60])
def test_clocks_that_differ_are_set_right(ahead_s: int) -> None:
    """By rank 1's clock its life lies wholly before or after that of rank 0."""
    process = RankProcess(RunId("r"), 1, WriterId("w"), 0, clock_offset_us=-ahead_s * 1_000_000)
    found = stretches([span(0, 0, 1, 5, 100), span(1, 0, 1, 5, 100 + ahead_s)], [process], [])
    assert [one.ranks for one in found] == [{0, 1}]


def test_ranks_that_step_one_after_the_other_are_together_while_they_live() -> None:
    process = RankProcess(RunId("r"), 0, WriterId("w"), 0, heard_ms=110_000)
    found = stretches([span(0, 0, 1, 1, 100), span(1, 0, 1, 1, 105)], [process], [])
    assert [one.ranks for one in found] == [{0, 1}]


@pytest.mark.parametrize("page", [3, 10_000])
def test_a_load_that_leads_forward_without_a_restart(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_PAGE", page)
    job = Job()
    job.start(1)
    job.train(6)
    saved = job.save()
    job.crash()
    job.start(1)
    job.train(2)
    job.load(saved)
    job.train(6)
    last = job.save()
    check(job)
    parts = History(job.source, job.run).inside(last.record)
    assert [part[1:] for part in parts] == [(0, 1, 6), (2, 7, 12)]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Any number of lives, each from nothing or from any checkpoint that can be loaded."""
    job = Job(counts_done=draw(st.booleans()), sharded=draw(st.booleans()))
    for _ in range(draw(st.integers(1, 4))):
        job.start(draw(st.integers(1, 3)), draw(st.sampled_from([None, *job.loadable()])))
        if draw(st.booleans()):
            job.dies_before_its_first_step(draw(st.sampled_from(job.ranks)))
        for _ in range(draw(st.integers(1, 3))):
            job.train(draw(st.integers(0, 6)))
            if job.step and draw(st.booleans()):
                job.save(ok=draw(st.booleans()), path=draw(st.sampled_from([None, "/ckpt/last"])))
            if job.loadable() and draw(st.integers(0, 4)) == 0:
                job.load(draw(st.sampled_from(job.loadable())))
        job.crash()
    return job


@settings(max_examples=80, deadline=None)
@given(jobs())
def test_any_job(job: Job) -> None:
    check(job)
