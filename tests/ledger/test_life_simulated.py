"""A simulated training, of which everything is known, is booked as it went."""

from __future__ import annotations

import pytest
from told_steps import HOUR, RUN, Told, booked_s, facts_of, history_of, is_whole

from trilens.ledger.lives.lost_work import lost_steps
from trilens.ledger.lives.spans import life_spans
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.run import CheckpointRecord, Ending, StepRecord
from trilens.simulate.scenario import Training
from trilens.simulate.training import PHASES, TrainingRun

RANKS = 3
STARTS_S, HANGS_S, GOES_ON_S, SLOWER_S, DIES_S = 60.0, 1000.0, 1600.0, 2500.0, 3300.0


def us(seconds: float) -> int:
    return HOUR * 1000 + round(1e6 * seconds)


@pytest.fixture(scope="module")
def training() -> TrainingRun:
    run = TrainingRun(Training(), RANKS, 0, STARTS_S, world_start_ms=HOUR, seed=3)
    run.trouble.hung_by = 2
    run.change(HANGS_S)
    run.trouble.hung_by = None
    run.change(GOES_ON_S)
    run.trouble.slow = {1: 2.0}
    run.change(SLOWER_S)
    run.stop(DIES_S)
    return run


def told_by(training: TrainingRun, rank: int) -> Told:
    told = Told(rank=rank, world_size=RANKS)
    for n, step in enumerate(training.steps(0, int(training.step_at(DIES_S)))):
        phases = {
            name: round(1e6 * float(part[rank])) for name, part in zip(PHASES, step.phases, strict=True)
        }
        took_us = us(step.end_s) - us(step.start_s)
        told.steps.append(StepRecord(RUN, step.number, rank, 0, n, us(step.start_s), took_us, phases))
    if rank == 0:  # writes for all
        for n, one in enumerate(training.checkpoints(DIES_S)):
            took_us = us(one.to_s) - us(one.from_s)
            path = f"step-{one.step}"
            told.checkpoints.append(
                CheckpointRecord(RUN, one.step, 0, 0, n, path, us(one.from_s) // 1000, duration_us=took_us)
            )
    return told.at_s(DIES_S).ends(Ending.LOST)


def test_each_bucket_has_what_happened(training: TrainingRun) -> None:
    lives = [told_by(training, rank) for rank in range(RANKS)]
    lost = lost_steps(history_of(*lives))
    spans = life_spans(facts_of(*lives), lost, HOUR + HOUR_MS)
    [stall] = training.stalls()
    assert stall.until_s is not None
    written = [*training.checkpoints(DIES_S)]
    kept = [step for step in training.steps(0, written[-1].step) if step.end_s != stall.until_s]
    for told in lives:
        of_rank = spans[told.key]
        assert is_whole(of_rank, HOUR, us(DIES_S) // 1000)
        last_us = told.steps[-1].start_us + told.steps[-1].duration_us
        found = booked_s(of_rank)
        assert found == pytest.approx(
            {
                "starting": STARTS_S,
                "stalled": stall.until_s - stall.since_s,
                "checkpoint": sum(one.to_s - one.from_s for one in written),
                "recompute": (last_us - us(written[-1].to_s)) / 1e6,
                "data_wait": sum(float(step.phases.data[told.rank]) for step in kept),
                "sync_wait": sum(float(step.phases.grad_sync[told.rank]) for step in kept),
                "productive": found["productive"],
            },
            abs=0.6,  # the minute of the last checkpoint has slow steps and lost ones
        )
        hung = [span for span in of_rank if span.parts[-1].bucket is Bucket.STALLED]
        assert [(span.since_ms, span.step) for span in hung] == [(us(stall.since_s) // 1000, stall.step)]
