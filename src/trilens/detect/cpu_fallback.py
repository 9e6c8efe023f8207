"""D005 CPU fallback: a program makes its steps without the GPU that it holds.

What it finds: steps go on, the program does not wait for data, and its GPU does nothing: no utilisation, no
SM activity, the power of a GPU at rest. Since when: against the same run before, or since its first steps.
Why it costs: it is ten to a hundred times slower, the GPU is paid for, and nothing fails.
Example: after a restart on a node whose driver does not load, `torch.cuda.is_available()` is false and the
program goes on with `cpu`.
What to do: look why the program does not see its GPU, then restart it; fail instead of falling back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.looking import Looking
from trilens.detect.readings import LatestReadings, Usual, began, is_fast
from trilens.detect.scene import Figure
from trilens.detect.stall import ANNOUNCED
from trilens.detect.subjects import DOUBTED, attempt_of, doubts_of, job_key, of_job, subject_key
from trilens.detect.wording import job_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity
from trilens.model.life import Phase
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.detect.readings import Flags
    from trilens.detect.scene import JobView, RankView, Scene, Telemetry
    from trilens.detect.subjects import JobKey
    from trilens.model.finding import FindingInterval

CODE: Final = "D005"

NO_USE: Final = 0.05  # utilisation
NO_SM: Final = 0.01  # a data-bound job on an H200 has 0.13 and more
REST_POWER: Final = 0.45  # of the usual at work, where SM activity tells; small cards take 0.4 of it
REST_POWER_ALONE: Final = 0.28  # where it does not: an H200 at rest takes 0.18, data-bound 0.31 and more
LASTS_MS: Final = 30_000  # longer than a step that is only prepared on the processor
NEVER_MS: Final = 120_000  # where it never used its GPU: the first steps prepare things
_STEPS: Final = 3  # that ended meanwhile: it goes on
_STEPS_NEVER: Final = 10
_DATA_SHARE: Final = 0.5  # of a step: then it waits for data, and falls back to nothing
_SYNC_SHARE: Final = 0.7  # it waits for others
_SLOW_STEPS: Final = 3  # as long as so many steps, nobody says that they do not go on
_SLOW: Final = 2.0  # times what the others take, where a rank never had its GPU
_RECENT: Final = 32  # steps
_READINGS: Final = 4
_SLOW_READINGS: Final = 2


@dataclass
class _Lasting:
    onset_ms: int
    cause: str
    ranks: tuple[int, ...]  # none where that is not known any more


class CpuFallback:
    code = CODE

    def __init__(self) -> None:
        self._power = Usual(Figure.POWER, follows_to=0.7)
        self._looking = Looking()
        self._lasting: dict[JobKey, _Lasting] = {}
        self._resumed: dict[JobKey, _Lasting] = {}
        # Of jobs at rest, by their life: since when they make steps without a pause. That a GPU rested before
        # says nothing: nobody had it, or its program was loading, compiling, saving.
        self._stepping_ms: dict[tuple[JobKey, int], int] = {}

    def resume(self, interval: FindingInterval) -> None:
        """That its GPUs worked before is not known any more, nor since when they do not."""
        finding = interval.finding
        lasting = _Lasting(finding.onset_ms, finding.cause, ())
        self._resumed[subject_key(finding.subject)] = lasting

    def look(self, scene: Scene) -> Iterator[Finding]:
        self._looking.look(scene.now_ms)
        if self._looking.is_settled:
            self._resumed.clear()
        telemetry = scene.telemetry
        if not len(telemetry.places) or Figure.UTILIZATION not in telemetry.figures:
            return
        latest = LatestReadings(telemetry)
        self._power.look(telemetry, latest)
        rests = self._rests(latest)
        still: dict[JobKey, _Lasting] = {}
        stepping_ms: dict[tuple[JobKey, int], int] = {}
        for job in _jobs_at_rest(scene.jobs, rests):
            if job.serves or not job.ranks or job.phase not in (None, Phase.RUNNING):
                continue
            key = job_key(job)
            found = self._lasting.get(key) or self._resumed.get(key)
            life = (key, attempt_of(job))
            if any(rank.doing in ANNOUNCED for rank in job.ranks):
                stepping_ms[life] = scene.now_ms
                found = found if found is not None and found.ranks else None
            else:
                stepping_ms[life] = self._stepping_ms.get(life) or _first_step_ms(job, scene.now_ms)
                found = self._look_at(job, rests, scene, found, stepping_ms[life])
            if found is not None:
                still[key] = found
                yield _finding(job, found, latest, scene)
        self._lasting, self._stepping_ms = still, stepping_ms

    def _rests(self, latest: LatestReadings) -> Flags:
        runs, sm, power = latest.of(Figure.UTILIZATION), latest.of(Figure.SM), latest.of(Figure.POWER)
        has_worked = self._power.is_known
        least = np.where(np.isnan(sm), REST_POWER_ALONE, REST_POWER) * self._power.levels
        takes_little = np.isnan(power) | ~has_worked | (power <= least)
        # Without SM activity and without work before, nothing tells rest from work that comes in bits.
        is_told = ~np.isnan(sm) | (has_worked & ~np.isnan(power))
        rests: Flags = (runs <= NO_USE) & ~(sm > NO_SM) & takes_little & is_told
        return rests

    def _look_at(
        self, job: JobView, rests: Flags, scene: Scene, before: _Lasting | None, stepping_ms: int
    ) -> _Lasting | None:
        ranks = [rank for rank in job.ranks if _goes_on(rank, scene.now_ms)]
        if not ranks:
            return None
        rows_of = {rank.rank: _rows(job, rank) for rank in ranks}
        idle = [
            rank for rank in ranks if rows_of[rank.rank] and all(rests[row] for row in rows_of[rank.rank])
        ]
        idle = [rank for rank in idle if _computes(rank)]
        if not idle:
            return None
        if before is not None:
            return before if before.ranks else replace(before, ranks=tuple(rank.rank for rank in idle))
        if not self._looking.is_settled:
            return None  # steps that had waited for somebody to listen look as if they were made just now
        rows = sorted({row for rank in idle for row in rows_of[rank.rank]})
        has_worked = self._power.is_known[rows]
        if not has_worked.all() and len(idle) < len(job.ranks) and not _are_slow(idle, ranks):
            return None  # ranks that never had work: it may be meant so, as with a coordinator
        cause = "fell-back" if has_worked.all() else "never-used"
        rest = _rest_of(scene.telemetry, rows, stepping_ms)
        needed_ms, steps = (LASTS_MS, _STEPS) if cause == "fell-back" else (NEVER_MS, _STEPS_NEVER)
        if not rest.is_told or rest.last_ms - rest.since_ms < needed_ms:
            return None
        # Steps after the last reading say nothing: by then the GPU may work again.
        made = [(rank.steps.end_ms > rest.since_ms) & (rank.steps.end_ms <= rest.last_ms) for rank in idle]
        if min(map(np.count_nonzero, made)) < steps:
            return None
        return _Lasting(rest.since_ms, cause, tuple(rank.rank for rank in idle))


def _jobs_at_rest(jobs: Sequence[JobView], rests: Flags) -> list[JobView]:
    """Those with a GPU at rest; all are asked at once."""
    if not rests.any():
        return []
    counts = np.array([len(job.rows) for job in jobs], np.intp)
    rows = np.fromiter(chain.from_iterable(job.rows for job in jobs), np.intp, int(counts.sum()))
    of_job_at = np.repeat(np.arange(len(jobs)), counts)
    return [jobs[at] for at in np.unique(of_job_at[rests[rows]]).tolist()]


def _first_step_ms(job: JobView, now_ms: int) -> int:
    """Of those that are remembered."""
    return max((int(rank.steps.end_ms[0]) for rank in job.ranks if len(rank.steps)), default=now_ms)


def _rows(job: JobView, rank: RankView) -> list[int]:
    """Its GPU; of a program that is alone, all that its job has."""
    if rank.row is not None:
        return [rank.row]
    return list(job.rows) if len(job.ranks) == 1 else []


def _goes_on(rank: RankView, now_ms: int) -> bool:
    steps = rank.steps
    if len(steps) < 2:
        return False
    recent = steps.end_ms[-_STEPS - 1 :]
    usual_ms = float(recent[-1] - recent[0]) / (len(recent) - 1)
    return now_ms - float(steps.end_ms[-1]) <= max(LASTS_MS, _SLOW_STEPS * usual_ms)


def _computes(rank: RankView) -> bool:
    """Not waiting for data or for others most of the time, as far as it tells."""
    steps = rank.steps
    took = np.nansum(steps.ms[-_STEPS:])
    if not took > 0:
        return True
    data, sync = np.nansum(steps.data_ms[-_STEPS:]), np.nansum(steps.sync_ms[-_STEPS:])
    return bool(data <= _DATA_SHARE * took and sync <= _SYNC_SHARE * took)


def _are_slow(idle: Sequence[RankView], ranks: Sequence[RankView]) -> bool:
    """Whether the others wait for these."""
    others = [_own_ms(rank) for rank in ranks if rank not in idle]
    return bool(others) and min(map(_own_ms, idle)) >= _SLOW * float(np.median(others))


def _own_ms(rank: RankView) -> float:
    return float(np.nansum(rank.steps.ms[-_STEPS:]) - np.nansum(rank.steps.sync_ms[-_STEPS:]))


class _Rest(NamedTuple):
    """Of several GPUs: from when to when all of them said that they rest, and whether often enough."""

    since_ms: int
    last_ms: int
    is_told: bool


def _rest_of(telemetry: Telemetry, rows: Sequence[int], not_before_ms: int) -> _Rest:
    times, runs = telemetry.times_ms, telemetry.figures[Figure.UTILIZATION]
    sm = telemetry.figures.get(Figure.SM)
    since_ms, last_ms, is_told = not_before_ms, int(times[-1]), True
    for row in rows:
        told = ~np.isnan(runs[row])
        is_so = runs[row] <= NO_USE
        if sm is not None:
            is_so &= ~(sm[row] > NO_SM)
        first = began(is_so, told)
        readings = times[told & (times >= max(since_ms, times[first]))] if first is not None else times[:0]
        is_told &= len(readings) >= (_READINGS if is_fast(telemetry, row) else _SLOW_READINGS)
        if len(readings):
            since_ms, last_ms = max(since_ms, int(readings[0])), min(last_ms, int(readings[-1]))
    return _Rest(since_ms, last_ms, is_told)


def _finding(job: JobView, lasting: _Lasting, latest: LatestReadings, scene: Scene) -> Finding:
    chosen = [rank for rank in job.ranks if rank.rank in lasting.ranks]
    one = chosen[0] if len(chosen) == 1 and len(job.ranks) > 1 else None
    rows = [row for rank in chosen for row in _rows(job, rank)]
    subject = of_job(job, scene, one if one is not None or len(job.ranks) > 1 else chosen[0])
    who = job_name(job)
    if one is not None:
        who = f"rank {one.rank} of {who}"
    elif len(chosen) < len(job.ranks):
        who = f"{ranks_name(lasting.ranks)} of {who}"
    figures = {"gpus": float(len(rows))}
    evidence = [_gpu_text(latest, rows)]
    slowdown = _slowdown(chosen[0], lasting.onset_ms)
    if slowdown is not None:
        figures["slowdown"] = slowdown
        evidence.append(f"steps take {slowdown:.3g} times as long as before")
    doubts = doubts_of(scene, rows)
    has = "no longer uses its GPU" if lasting.cause == "fell-back" else "has never used its GPU"
    return Finding(
        CODE,
        FindingKind.CPU_FALLBACK,
        subject,
        Severity.WARNING,
        lasting.cause,
        lasting.onset_ms,
        f"{who} goes on with its steps, but {has}",
        "See whether the program finds its GPU: `python -c 'import torch; print(torch.cuda.is_available())'` "
        "in its container, CUDA_VISIBLE_DEVICES, the driver and its log; then restart it, or move it.",
        (0.9 if lasting.cause == "fell-back" else 0.8) * (DOUBTED if doubts else 1.0),
        tuple(map(Evidence, evidence)),
        doubts,
        figures,
    )


def _gpu_text(latest: LatestReadings, rows: Sequence[int]) -> str:
    runs, watts = latest.of(Figure.UTILIZATION)[rows], latest.of(Figure.POWER)[rows]
    power = f" at {np.nanmedian(watts):.0f} W" if not np.isnan(watts).all() else ""
    return f"its GPU{'s' if len(rows) > 1 else ''}: {np.nanmax(runs):.0%} utilisation{power}"


def _slowdown(rank: RankView, onset_ms: int) -> float | None:
    """How much longer steps take than before, where there was a before."""
    steps = rank.steps
    after = steps.end_ms - steps.ms > onset_ms
    before, now = steps.ms[~after & (steps.end_ms <= onset_ms)][-_RECENT:], steps.ms[after][-_RECENT:]
    if len(before) < _STEPS or not len(now):
        return None
    return float(np.median(now) / np.median(before)) if np.median(before) > 0 else None
