"""Where the GPU time of simulated training jobs really went, by the truth: for scoring a ledger."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.simulate.training import TrainingRun
    from trilens.simulate.truth import AttemptTruth, FaultTruth, Truth


class TrueTime(NamedTuple):
    """Of one job: GPU-seconds by bucket, in the ledger's words, and what was made to go wrong with it."""

    job_uid: str
    name: str
    namespace: str
    team: str
    seconds: Mapping[str, float]
    faults: tuple[FaultTruth, ...]


def true_time(truth: Truth, start_ms: int, now_ms: int) -> list[TrueTime]:
    """Of all that trained, from the beginning of the world until now. What comes after the last step of an
    attempt, before its pods are gone, is left out."""
    by_job: defaultdict[str, list[AttemptTruth]] = defaultdict(list)
    for attempt in truth.attempts:
        if attempt.run is not None:
            by_job[attempt.job_uid].append(attempt)
    found = []
    for uid, attempts in by_job.items():
        seconds: defaultdict[str, float] = defaultdict(float)
        for attempt, following in zip(attempts, [*attempts[1:], None], strict=True):
            assert attempt.run is not None
            ended_ms = attempt.to_ms if attempt.to_ms is not None else now_ms
            saved = following.first_step if following is not None else None
            _add_run(seconds, attempt.run, (ended_ms - start_ms) / 1000, saved)
        for on_gpu in truth.gpus:
            if on_gpu.job_uid == uid and on_gpu.rank is not None:
                began = [one.from_ms for one in attempts if one.attempt == on_gpu.attempt]
                until_ms = began[0] if began else on_gpu.to_ms if on_gpu.to_ms is not None else now_ms
                seconds["starting"] += max(0, until_ms - on_gpu.from_ms) / 1000
        job = truth.jobs[uid]
        faults = tuple(fault for fault in truth.faults if fault.job_uid == uid)
        found.append(TrueTime(uid, job.name, job.namespace, job.team, seconds, faults))
    return found


def _add_run(seconds: defaultdict[str, float], run: TrainingRun, until_s: float, saved: int | None) -> None:
    """`saved` is where the next attempt took up: what came after it was lost."""
    last = math.floor(run.step_at(until_s))
    for step in run.steps(run.first_step, last):
        took_s = sum(float(part.sum()) for part in step.phases)
        if saved is not None and step.number > saved:
            seconds["recompute"] += took_s
            continue
        data_s, sync_s = float(step.phases.data.sum()), float(step.phases.grad_sync.sum())
        seconds["data_wait"] += data_s
        seconds["sync_wait"] += sync_s
        seconds["productive"] += took_s - data_s - sync_s
    for one in run.checkpoints(until_s):
        seconds["checkpoint"] += (min(one.to_s, until_s) - one.from_s) * run.ranks
    for stall in run.stalls():
        stalled_until_s = stall.until_s if stall.until_s is not None else until_s
        seconds["stalled"] += (stalled_until_s - stall.since_s) * run.ranks
