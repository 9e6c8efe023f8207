"""Who saw a sample, and which checkpoints have it."""

from __future__ import annotations

from simulated_job import Job
from trilens.lineage.sightings import seen


def test_contained_thrown_away_and_what_failed() -> None:
    """Rank 0 alone: sample 4 * (step - 1) is the first of each step."""
    job = Job()
    job.start(1)
    job.train(4)
    saved = job.save()
    job.train(1)
    job.save(ok=False)
    job.crash()
    job.start(1, saved)
    job.train(2)
    job.save()

    def told(sample: int) -> list[tuple[int, int, bool, list[int]]]:
        return [
            (one.sighting.step, one.sighting.attempt, one.kept, one.checkpoints)
            for one in seen(job.source, job.source.sightings(sample))
        ]

    assert told(0) == [(1, 0, True, [4, 6])]
    assert told(12) == [(4, 0, True, [4, 6])]
    assert told(16) == [(5, 0, False, []), (5, 1, True, [6])]
    assert told(999) == []


def test_a_batch_whose_step_is_not_over() -> None:
    job = Job()
    job.start(1)
    job.train(2)
    del job.source.told_steps[-1]
    (one,) = seen(job.source, job.source.sightings(4))
    assert (one.kept, one.checkpoints) == (True, [])
