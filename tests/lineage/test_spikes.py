"""Where a loss jumped or was not finite, and the batches before."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simulated_job import Job
from trilens.lineage import before_spikes
from trilens.lineage.before_spikes import before, common
from trilens.lineage.history import History
from trilens.lineage.spikes import spikes
from trilens.model.run_curve import Curve
from trilens.model.run_sums import CurvePoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.lineage.spikes import Spike


def curve(*attempts: Sequence[float]) -> Curve:
    points = [
        CurvePoint(step, attempt, step * 1000, loss, loss, 0)
        for attempt, losses in enumerate(attempts)
        for step, loss in enumerate(losses, 1)
    ]
    return Curve.of(sorted(points))


def falling(count: int, noise: float, seed: int = 1) -> list[float]:
    """As a loss goes: fast, then slowly."""
    chance = random.Random(seed)
    return [2 + 8 * math.exp(-step / 100) + chance.gauss(0, noise) for step in range(count)]


def where(found: Sequence[Spike]) -> list[tuple[int, int, int]]:
    return [(one.attempt, one.step, one.last_step) for one in found]


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.05, 0.5])
def test_noise_is_no_spike(noise: float) -> None:
    assert where(spikes(curve(falling(5_000, noise)))) == []


def test_a_flat_curve_has_none_in_its_ripples() -> None:
    assert spikes(curve([2.0] * 100 + [2.05] + [2.0] * 100)) == []
    assert where(spikes(curve([2.0] * 100 + [2.5] + [2.0] * 100))) == [(0, 101, 101)]


def test_a_jump_and_how_far_it_goes() -> None:
    losses = falling(1_000, 0.05)
    losses[500:503] = [9.0, 12.0, 6.0]
    (spike,) = spikes(curve(losses))
    assert (spike.step, spike.last_step, spike.peak.step, spike.peak.worst) == (501, 503, 502, 12.0)
    assert spike.median is not None
    assert 2 < spike.median < 2.2
    assert spike.spreads is not None
    assert spike.spreads > 50


def test_a_curve_that_stays_up_is_one_spike() -> None:
    losses = falling(1_000, 0.05)
    losses[500:] = [loss + 5 for loss in losses[500:]]
    (spike,) = spikes(curve(losses))
    assert spike.step == 501
    assert spike.last_step < 501 + 64


def test_what_is_not_finite_is_one_wherever_it_is() -> None:
    found = spikes(curve([math.nan, 2.0, 2.0, 2.0, 2.0, 2.0, math.inf]))
    assert where(found) == [(0, 1, 1), (0, 7, 7)]
    assert [one.is_finite for one in found] == [False, False]


def test_attempts_are_compared_each_with_itself() -> None:
    """One that goes back to an early checkpoint begins higher, and that is no spike."""
    high, low = falling(200, 0.01), [2.0] * 200
    assert spikes(curve(low, high)) == []


def job_with(losses: dict[tuple[int, int], float]) -> Job:
    """A crash after step 30, and again from step 20; losses by attempt and step."""
    job = Job()
    job.start(2)
    job.train(20)
    saved = job.save()
    job.train(10)
    job.crash()
    job.start(2, saved)
    job.train(20)
    steps = job.source.told_steps
    steps[:] = [
        replace(one, values={"loss": losses.get((one.attempt, one.step), 2.0) if one.rank == 1 else 2.0})
        for one in steps
    ]
    job.source.told_batches[:] = [
        replace(one, digest=f"{one.rank}-{one.first}") for one in job.source.told_batches
    ]
    return job


def test_the_batches_before_a_spike() -> None:
    job = job_with({(0, 25): 50.0})
    history = History(job.source, job.run)
    (spike,) = spikes(job.source.curve(job.run, "loss", 0, 100))
    assert (spike.step, spike.peak.worst_rank) == (25, 1)
    told = before(history, spike, 2)
    assert [(one.step, one.rank) for one in told.batches] == [
        (25, 1),
        (24, 1),
        (23, 1),
        (25, 0),
        (24, 0),
        (23, 0),
    ]
    assert common([told]) == []


def test_of_many_ranks_only_the_worst_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before_spikes, "_MOST_RANKS", 1)
    job = job_with({(0, 25): 50.0})
    (spike,) = spikes(job.source.curve(job.run, "loss", 0, 100))
    told = before(History(job.source, job.run), spike, 1)
    assert [(one.step, one.rank) for one in told.batches] == [(25, 1), (24, 1)]
    assert not told.is_of_all_ranks


def test_before_the_first_step_of_an_attempt_comes_what_it_loaded() -> None:
    job = job_with({(1, 21): math.nan})
    history = History(job.source, job.run)
    (spike,) = spikes(job.source.curve(job.run, "loss", 0, 100))
    told = before(history, spike, 2)
    assert {(one.step, one.attempt) for one in told.batches} == {(21, 1), (20, 0), (19, 0)}


def test_a_batch_that_came_before_both_spikes() -> None:
    job = job_with({(0, 29): 50.0, (1, 29): 60.0})
    found = spikes(job.source.curve(job.run, "loss", 0, 100))
    history = History(job.source, job.run)
    told = [before(history, one, 0) for one in found]
    shared = common(told)
    assert [(one.digest, one.spikes) for one in shared if one.digest] == [
        ("1-228", [0, 1]),
        ("0-224", [0, 1]),
    ]
    assert [one.sample for one in shared if one.digest is None] == []


def test_a_sample_that_came_before_both_spikes_in_other_company() -> None:
    job = job_with({(0, 29): 50.0, (1, 35): 60.0})
    batches = job.source.told_batches
    batches[:] = [
        replace(one, first=228, size=1, digest="alone")
        if (one.attempt, one.step, one.rank) == (1, 35, 0)
        else one
        for one in batches
    ]
    found = spikes(job.source.curve(job.run, "loss", 0, 100))
    history = History(job.source, job.run)
    shared = common([before(history, one, 0) for one in found])
    assert [(one.digest, one.sample, one.spikes) for one in shared] == [(None, 228, [0, 1])]


def test_spikes_close_together_share_steps_and_nothing_else() -> None:
    losses = {(1, 33): 50.0, (1, 38): 50.0}
    job = job_with(losses)
    found = spikes(job.source.curve(job.run, "loss", 0, 100))
    assert [one.step for one in found] == [33, 38]
    history = History(job.source, job.run)
    assert common([before(history, one, 10) for one in found]) == []
