"""D006 plateau: the loss of a run has stopped falling.

What it finds: over the last quarter of its steps, at least 300 and 7 minutes, the loss falls by less than a
quarter of what it did in as many steps before; beyond its own noise, and measured over the logarithm of the
step, as learning slows down by itself.
Why it costs: GPUs compute what changes nothing.
Example: 2.9, 2.7, 2.6 over three thousand steps, then 2.6 for a thousand more.
What to do: look at the learning rate, at gradients and at whether the data repeat; stop it if it has learnt
what it can. Whether this is wanted nobody can tell from the loss, so it is no more than information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.job_memory import JobMemory
from trilens.detect.subjects import attempt_of, job_key, of_job, subject_key
from trilens.detect.wording import job_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity
from trilens.model.life import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.detect.scene import JobView, RankView, Scene, Steps
    from trilens.detect.subjects import JobKey
    from trilens.model.finding import FindingInterval

    Floats = NDArray[np.float64]

CODE: Final = "D006"

LEAST_STEPS: Final = 300
LEAST_MS: Final = 7 * 60_000  # of short steps more: schedules and curricula rest for minutes
LAST_PART: Final = 0.25  # of all its steps: a run that is ten times as long may rest ten times as long
PACE: Final = 0.25  # of how fast it fell before: less is a plateau
WORTH: Final = 0.01  # of the loss: what it would have fallen by, for anybody to miss it
ENDING: Final = 0.9  # of all steps it will make: at the end of a schedule it is meant to be flat
_BLOCK: Final = 10  # values at first
_MOST_BLOCKS: Final = 192  # then two become one
_FEWEST_BLOCKS: Final = 8
_POINTS: Final = 24  # of a slope: pairs are many
_JUDGED_EVERY: Final = 8  # blocks
_SIGMA: Final = 1.4826
_NORMAL_95: Final = 1.96
_FALLS_AGAIN: Final = 3.0  # of the noise of blocks
_STALE_MS: Final = 10 * 60_000


class Slope(NamedTuple):
    """Theil and Sen's: the median of the slopes of all pairs, and between what it is with 95 %."""

    low: float
    middle: float
    high: float


def slope_of(x: Floats, y: Floats) -> Slope:
    first, second = np.triu_indices(len(x), 1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    count, pairs = len(x), len(slopes)
    spread = _NORMAL_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low, high = int((pairs - spread) / 2), math.ceil((pairs + spread) / 2)
    return Slope(float(slopes[max(low, 0)]), float(slopes[pairs // 2]), float(slopes[min(high, pairs - 1)]))


class _Flat(NamedTuple):
    since_step: int
    onset_ms: int
    level: float
    noise: float
    evidence: tuple[Evidence, ...]


@dataclass
class _Curve:
    """The loss of one life of a job, as medians of blocks."""

    attempt: int
    told_ms: int = 0
    fed: int = -1  # the last step in a block
    size: int = _BLOCK
    steps: list[float] = field(default_factory=list)  # the middle of each block
    ends_ms: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    unjudged: int = 0
    flat: _Flat | None = None

    def feed(self, steps: Steps) -> None:
        first = int(np.searchsorted(steps.step, self.fed, side="right"))
        if len(steps) - first < self.size:
            return
        numbers, ends, losses = steps.step[first:], steps.end_ms[first:], steps.loss[first:]
        told = np.flatnonzero(np.isfinite(losses))
        count = len(told) // self.size
        if not count:
            return
        blocks = told[: count * self.size].reshape(count, self.size)
        self.fed = int(numbers[blocks[-1, -1]])
        self.steps += numbers[blocks[:, self.size // 2]].astype(float).tolist()
        self.ends_ms += ends[blocks[:, 0]].tolist()
        self.losses += np.median(losses[blocks], axis=1).tolist()
        self.unjudged += count
        if len(self.steps) > _MOST_BLOCKS:
            self._halve()

    def _halve(self) -> None:
        kept = len(self.steps) // 2 * 2
        pairs = np.reshape(self.losses[:kept], (-1, 2)).mean(axis=1)
        middles = np.reshape(self.steps[:kept], (-1, 2)).mean(axis=1)
        self.losses = [*pairs.tolist(), *self.losses[kept:]]
        self.steps = [*middles.tolist(), *self.steps[kept:]]
        self.ends_ms = [*self.ends_ms[:kept:2], *self.ends_ms[kept:]]
        self.size *= 2


class Plateau:
    code = CODE

    def __init__(self) -> None:
        self._jobs: JobMemory[_Curve] = JobMemory()
        self._resumed: dict[JobKey, FindingInterval] = {}

    def resume(self, interval: FindingInterval) -> None:
        """The curve that it was found by is not known any more, but what it must fall below is."""
        if "noise" in interval.finding.figures:
            self._resumed[subject_key(interval.finding.subject)] = interval

    def look(self, scene: Scene) -> Iterator[Finding]:
        for job in scene.jobs:
            rank = _teller(job)
            if rank is None:
                continue
            curve = self._curve(job, rank, scene.now_ms)
            told_ms = int(rank.steps.end_ms[-1])
            if told_ms != curve.told_ms:
                curve.told_ms = told_ms
                curve.feed(rank.steps)
                _judge(curve, job.run.total_steps if job.run is not None else None)
            if curve.flat is not None and scene.now_ms - told_ms <= _STALE_MS:
                yield _finding(job, int(rank.steps.step[-1]), curve.flat, scene)

    def _curve(self, job: JobView, rank: RankView, now_ms: int) -> _Curve:
        attempt = attempt_of(job)
        curve = self._jobs.get(job, now_ms)
        if curve is None or curve.attempt != attempt:
            flat = self._resumed_by(job, rank)
            curve = self._jobs.put(job, now_ms, _Curve(attempt, flat=flat))
        return curve

    def _resumed_by(self, job: JobView, rank: RankView) -> _Flat | None:
        """What was found before a restart, of the life that goes on."""
        before = self._resumed.pop(job_key(job), None)
        began_ms = rank.process.started_ms if rank.process is not None else 0
        if before is None or began_ms > before.seen_ms:
            return None
        finding, figures = before.finding, before.finding.figures
        return _Flat(
            int(figures["step"]), finding.onset_ms, figures["loss"], figures["noise"], finding.evidence
        )


def _teller(job: JobView) -> RankView | None:
    if job.serves or job.phase not in (None, Phase.RUNNING):
        return None
    for rank in job.ranks:
        if len(rank.steps):
            return rank
    return None


def _judge(curve: _Curve, total_steps: int | None) -> None:
    if not curve.unjudged:
        return
    flat = curve.flat
    if flat is not None:
        curve.unjudged = 0
        if np.median(curve.losses[-3:]) < flat.level - _FALLS_AGAIN * flat.noise:
            curve.flat = None
        return
    last = curve.steps[-1]
    if curve.unjudged < _JUDGED_EVERY or (total_steps is not None and last >= ENDING * total_steps):
        return
    curve.unjudged = 0
    steps, losses = np.array(curve.steps), np.array(curve.losses)
    rested = int(np.searchsorted(curve.ends_ms, curve.ends_ms[-1] - LEAST_MS))
    wide = max(LEAST_STEPS, LAST_PART * last, last - curve.steps[max(rested - 1, 0)])
    lately, before = steps > last - wide, (steps <= last - wide) & (steps > last - 2 * wide)
    if min(np.count_nonzero(lately), np.count_nonzero(before)) < _FEWEST_BLOCKS:
        return
    if steps[before][0] > last - 2 * wide + 0.5 * wide:
        return  # it was not seen for long enough to know how it fell
    x = np.log(np.maximum(steps, 1.0))
    now, then = slope_of(*_thin(x[lately], losses[lately])), slope_of(*_thin(x[before], losses[before]))
    level = float(np.median(losses[lately]))
    missed = -then.middle * math.log(last / max(last - wide, 1.0))
    if then.high >= 0 or missed < WORTH * abs(level) or now.low < PACE * then.middle:
        return
    if now.high > -PACE * then.middle or level > np.median(losses[before]):
        return  # it rises, or has risen: that is D007's to tell
    noise = _SIGMA * float(np.median(np.abs(losses[lately] - level)))
    at = int(np.flatnonzero(losses <= level + 2 * noise)[0])
    evidence = (
        f"over {round(wide):,} steps it changed by {now.middle:+.3g} ({now.low:+.3g} to {now.high:+.3g}) for "
        f"each factor of e in steps, in as many before by {then.middle:+.3g}"
    )
    curve.flat = _Flat(int(curve.steps[at]), curve.ends_ms[at], level, noise, (Evidence(evidence),))


def _thin(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """No more points than a slope needs: means of neighbours."""
    each = -(-len(x) // _POINTS)
    if each == 1:
        return x, y
    kept = len(x) // each * each
    return x[-kept:].reshape(-1, each).mean(axis=1), y[-kept:].reshape(-1, each).mean(axis=1)


def _finding(job: JobView, last_step: int, flat: _Flat, scene: Scene) -> Finding:
    steps = max(last_step - flat.since_step, 0)
    return Finding(
        CODE,
        FindingKind.PLATEAU,
        of_job(job, scene),
        Severity.INFO,
        "loss-flat",
        flat.onset_ms,
        f"The loss of {job_name(job)} has not fallen for {steps:,} steps: it stays at {flat.level:.4g} since "
        f"step {flat.since_step}",
        "See whether that is meant: the learning rate's schedule, gradient norms, data that repeat, the "
        "validation loss; stop it if it has learnt what it can.",
        0.7,
        flat.evidence,
        (),
        {"step": float(flat.since_step), "steps": float(steps), "loss": flat.level, "noise": flat.noise},
    )
