"""What is said to be doubtful about what a checkpoint contains, and what else is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simulated_job import Job
from trilens.lineage.contents import checkpoints, contents
from trilens.lineage.history import History
from trilens.model.run import BatchRecord, RunId

if TYPE_CHECKING:
    from trilens.lineage.contents import Contents


def inside(job: Job, at: int = -1) -> Contents:
    history = History(job.source, job.run)
    return contents(history, checkpoints(history)[at])


def codes(job: Job, at: int = -1) -> list[str]:
    return [doubt.code for doubt in inside(job, at).doubts]


def crashed_at_15() -> Job:
    job = Job()
    job.start(2)
    job.train(10)
    job.save()
    job.train(5)
    job.crash()
    return job


def test_none_where_everything_was_told() -> None:
    job = crashed_at_15()
    job.start(2, job.saved[0])
    job.train(5)
    job.save()
    assert codes(job) == []


def test_a_load_that_was_not_told() -> None:
    job = crashed_at_15()
    job.start(2, job.saved[0], tell=False)
    job.train(5)
    job.save()
    told = inside(job)
    assert [part[1:] for part in told.parts] == [(0, 1, 10), (1, 11, 15)]
    (doubt,) = told.doubts
    assert doubt.code == "load-inferred"
    assert doubt.text == (
        "attempt 1 begins with step 11 and did not tell what it loaded: taken to go on from step 10"
    )


def test_a_run_that_begins_in_the_middle() -> None:
    job = Job()
    job.start(1)
    job.step = 100
    job.train(5)
    job.save()
    assert codes(job) == ["begins-late"]


def test_a_checkpoint_that_nobody_wrote() -> None:
    job = crashed_at_15()
    unknown = replace(job.saved[0], record=replace(job.saved[0].record, path="/elsewhere", step=7))
    job.start(2, unknown)
    job.train(3)
    job.save()
    told = inside(job)
    assert [doubt.code for doubt in told.doubts] == ["checkpoint-unknown"]
    assert [part[1:] for part in told.parts] == [(0, 1, 7), (1, 8, 10)]


def test_what_nobody_wrote_loaded_at_the_end_and_written_again() -> None:
    """What is in it is not known, and that is not nothing."""
    job = Job()
    job.start(2)
    job.train(10)
    saved = job.save()
    job.load(replace(saved, record=replace(saved.record, path="/elsewhere", step=7)))
    job.save(path="/result")
    told = inside(job)
    assert [doubt.code for doubt in told.doubts] == ["checkpoint-unknown"]
    assert told.parts == ()


def test_steps_that_are_counted_when_done_and_a_checkpoint_that_nobody_wrote() -> None:
    """It was named after step 8, and step 8 is the next that was done."""
    job = Job(counts_done=True)
    job.start(1)
    job.train(10)
    saved = job.save()
    job.crash()
    job.start(1, replace(saved, record=replace(saved.record, path="/elsewhere", step=8)))
    job.train(3)
    job.save()
    assert [part[1:] for part in inside(job).parts] == [(0, 1, 7), (1, 8, 10)]


def test_a_file_of_a_folder_that_was_written() -> None:
    job = crashed_at_15()
    saved = job.saved[0]
    job.start(2, replace(saved, record=replace(saved.record, path=f"{saved.record.path}/rank0.pt")))
    job.train(3)
    job.save()
    assert codes(job) == []


def test_what_was_not_told_is_taken_from_the_latest_that_came_so_far() -> None:
    job = crashed_at_15()
    saved = job.saved[0]
    job.start(2, saved)
    job.train(3)
    job.crash()
    job.start(2, replace(saved, record=replace(saved.record, step=12)), tell=False)
    job.train(2)
    job.save()
    assert [part[1:] for part in inside(job).parts] == [(0, 1, 10), (1, 11, 12), (2, 13, 14)]


def test_a_checkpoint_that_was_moved() -> None:
    job = crashed_at_15()
    moved = replace(job.saved[0], record=replace(job.saved[0].record, path="/elsewhere"))
    job.start(2, moved)
    job.train(3)
    job.save()
    assert codes(job) == ["checkpoint-by-step"]


def test_a_path_that_holds_another_step() -> None:
    job = crashed_at_15()
    older = replace(job.saved[0], record=replace(job.saved[0].record, step=3))
    job.start(2, older)
    job.train(3)
    job.save()
    assert codes(job) == ["step-differs"]


def test_ranks_that_loaded_different_steps() -> None:
    job = crashed_at_15()
    job.start(2, job.saved[0])
    loads = job.source.told_checkpoints
    loads[-1] = replace(loads[-1], step=9)
    job.train(3)
    job.save()
    assert codes(job) == ["loads-differ"]


def test_step_records_that_did_not_arrive() -> None:
    job = Job()
    job.start(2)
    job.train(10)
    job.save()
    lost = {(4, 1), (5, 1)}
    steps = job.source.told_steps
    steps[:] = [one for one in steps if (one.step, one.rank) not in lost]
    (doubt,) = inside(job).doubts
    assert (doubt.code, doubt.text) == (
        "steps-missing",
        "2 step records of attempt 0 did not arrive (rank 1)",
    )


def test_a_rank_that_tells_less_than_the_others() -> None:
    job = Job()
    job.start(2)
    job.train(10)
    job.save()
    steps = job.source.told_steps
    steps[:] = [one for one in steps if one.rank == 0 or one.step < 8]
    (doubt,) = inside(job).doubts
    assert doubt.code == "ranks-differ"
    assert "rank 1 did not tell of all of steps 1 to 10: rank 1 of 1 to 7" in doubt.text


def test_ranks_without_the_sdk() -> None:
    job = Job()
    job.start(4)
    job.ranks = [0]
    job.train(2)
    job.save()
    (doubt,) = inside(job).doubts
    assert (doubt.code, doubt.text) == ("ranks-missing", "in attempt 0 1 of 4 ranks told of their steps")


def test_a_checkpoint_later_than_any_step_that_is_known() -> None:
    job = Job()
    job.start(1)
    job.train(5)
    job.step = 9
    job.save()
    assert codes(job) == ["steps-missing"]


def test_one_that_failed_and_one_without_steps() -> None:
    job = Job()
    job.start(1)
    job.step = 3
    job.save(ok=False)
    assert codes(job) == ["checkpoint-failed", "no-steps"]


def test_shards_of_ranks_are_one_checkpoint() -> None:
    job = Job(sharded=True)
    job.start(3)
    job.train(2)
    job.save(path="/ckpt/2")
    (one,) = checkpoints(History(job.source, job.run))
    assert (one.ranks, one.size_bytes, one.ok) == ((0, 1, 2), 3_000, True)
    assert one.paths == ("/ckpt/2", "/ckpt/2/rank1", "/ckpt/2/rank2")


def test_shares_and_samples_that_came_twice() -> None:
    """The data begins anew after the restart, as where a sampler's place is not kept."""
    job = Job()
    job.start(1)
    job.train(4)
    saved = job.save()
    job.crash()
    job.start(1, saved)
    job.train(2)
    again = [one for one in job.source.told_batches if one.attempt == 1]
    for one in again:
        job.source.told_batches.remove(one)
        job.source.told_batches.append(replace(one, first=(one.step - 5) * 4))
    unknown = BatchRecord(RunId("run-a"), 6, 0, 1, 1, 1, "train", epoch=0, unknown="an iterable")
    job.source.told_batches.append(unknown)
    job.save()
    told = inside(job)
    assert [tuple(share) for share in told.shares] == [("train", None, 7, 24, 1)]
    assert told.repeated is not None
    (repeated,) = told.repeated
    assert (repeated.dataset, repeated.epoch, repeated.samples) == ("train", 0, 8)
    assert repeated.examples == [0, 1, 2, 3, 4]


def test_the_result_is_often_the_best_checkpoint_loaded_again() -> None:
    job = Job()
    job.start(1)
    job.train(3)
    best = job.save()
    job.train(4)
    job.load(best)
    job.step = 7
    job.save(path="/result")
    told = inside(job)
    assert [part[1:] for part in told.parts] == [(0, 1, 3)]
    assert [part[1:] for part in told.thrown_away] == [(0, 4, 7)]
    assert told.doubts == []
