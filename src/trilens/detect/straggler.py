"""D003 straggler: one rank has become slower than it was, and all others wait for it.

What it finds: over windows of ten steps, what a rank needs itself (its step less the wait for others) has
grown against its own past and against its peers at the same steps. In synchronous training all steps are
equally long: the straggler is the one that waits least.
Why it costs: every GPU of the job waits for the slowest one; fail-slow faults make jobs a third longer.
Example: rank 5 needs 1.3 times as long since step 4,310, so all 64 GPUs do.
What to do: compare its GPU's clock, temperature and PCIe link and its node's load with those of its peers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.detect.job_memory import JobMemory
from trilens.detect.peers import IN_A_ROW, OVER_AFTER, STRIDE, WINDOW, is_over, limit, reference, since
from trilens.detect.scene import ToldBy
from trilens.detect.stall import ANNOUNCED
from trilens.detect.subjects import attempt_of, of_job
from trilens.detect.wording import job_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.detect.peers import Floats
    from trilens.detect.scene import JobView, RankView, Scene, Steps

CODE: Final = "D003"

_FIRST: Final = 5  # steps that say nothing of those to come
_LEARNT: Final = 4  # windows, until what is usual is known
_SETTLED: Final = 8  # windows, until it is known how much that wanders
_CATCH_UP: Final = 24  # windows: what is older is not looked at any more
_MOST_JUDGED: Final = 40_000  # windows of ranks in one look: the rest of a large fleet's history in the next
_FOLLOWS: Final = 0.02  # of the way, with each calm window
_WOBBLE_FOLLOWS: Final = 0.1
_LEAST_WOBBLE: Final = 0.01
# From how far steps are off the median of their window to how far that median is off what was learnt first:
# 1.48 x (1.25 / sqrt(10) and 1.25 / sqrt(25) together) x 0.8, and a little, as it is estimated from few.
_OF_STEPS: Final = 0.65
_LOOK_BACK: Final = 100  # steps, for the one with which it began
_CLEARLY: Final = 1.5  # times as much as the next on its node: then it is the one, and not the node
_QUIET_MS: Final = 60_000  # and some steps


@dataclass
class _Slow:
    """Ranks of one node, as they were first told."""

    ranks: tuple[int, ...]
    onset_ms: int
    onset_step: int
    cause: str
    excess: float  # of the slowest


@dataclass
class _Job:
    """What is remembered of one life of a job; arrays are by rank."""

    ranks: int
    attempt: int
    judged: int  # the last step of the last window
    windows: int = 0
    paused_ms: int = 0  # when an announced pause was last seen
    early: list[Floats] = field(default_factory=list)
    usual: Floats = field(default_factory=lambda: np.empty(0))
    wobble: Floats = field(default_factory=lambda: np.empty(0))
    excess: Floats = field(default_factory=lambda: np.empty(0))
    hits: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    misses: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    is_slow: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))
    common: float = 1.0  # how much longer all of them take than usual
    found: dict[str, _Slow] = field(default_factory=dict)  # by node


class Straggler:
    code = CODE

    def __init__(self) -> None:
        self._jobs: JobMemory[_Job] = JobMemory()

    def look(self, scene: Scene) -> Iterator[Finding]:
        watched = [(job, self._known(job, scene.now_ms)) for job in scene.jobs if _tells(job)]
        due, judged = watched, 0
        while judged < _MOST_JUDGED and (due := [(job, one) for job, one in due if _is_due(job, one)]):
            self._judge(due)
            judged += sum(known.ranks for _, known in due)
        for job, known in watched:
            if known.found or known.is_slow.any():
                yield from self._told(job, known, scene)

    def _known(self, job: JobView, now_ms: int) -> _Job:
        known, ranks, attempt = self._jobs.get(job, now_ms), len(job.ranks), attempt_of(job)
        if known is not None and known.ranks == ranks and known.attempt == attempt:
            return known
        new = _Job(
            ranks,
            attempt,
            int(job.ranks[0].steps.step[0]) + _FIRST + WINDOW - STRIDE,
            excess=np.zeros(ranks),
            hits=np.zeros(ranks, np.int64),
            misses=np.zeros(ranks, np.int64),
            is_slow=np.zeros(ranks, bool),
        )
        return self._jobs.put(job, now_ms, new)

    def _judge(self, due: Sequence[tuple[JobView, _Job]]) -> None:
        """The next window of each of these jobs, all of them at once."""
        windows = np.array(
            [_own(rank.steps, known.judged + STRIDE) for job, known in due for rank in job.ranks]
        )
        medians = np.median(windows, axis=1)
        at = 0
        known_jobs: list[tuple[_Job, Floats]] = []
        for _, known in due:
            known.judged += STRIDE
            known.windows += 1
            ranks = slice(at, at + known.ranks)
            at = ranks.stop
            if known.windows > _LEARNT:
                known_jobs.append((known, medians[ranks]))
            else:
                _learn(known, windows[ranks], medians[ranks])
        if known_jobs:
            _compare(known_jobs)

    def _told(self, job: JobView, known: _Job, scene: Scene) -> Iterator[Finding]:
        slow: dict[str, list[int]] = {}
        for at in np.flatnonzero(known.is_slow).tolist():
            slow.setdefault(_node(job.ranks[at], scene), []).append(at)
        known.found = {node: one for node, one in known.found.items() if node in slow}
        # A checkpoint makes nobody faster; but what makes no steps is not slow any more, but stalled.
        if any(rank.doing in ANNOUNCED for rank in job.ranks):
            known.paused_ms = scene.now_ms
        steps = job.ranks[0].steps
        quiet_ms = _QUIET_MS + 5 * float(steps.ms[-1])
        if scene.now_ms - max(known.paused_ms, int(steps.end_ms[-1])) > quiet_ms:
            return
        for node, ranks in slow.items():
            one = known.found.get(node)
            if one is None:
                one = known.found[node] = _first_told(job, known, ranks)
            yield _finding(job, known, node, one, scene)


def _tells(job: JobView) -> bool:
    """Step by step, and of more than one rank."""
    return len(job.ranks) > 1 and len(job.ranks[0].steps) > 0 and job.ranks[0].told_by is ToldBy.RECORDS


def _is_due(job: JobView, known: _Job) -> bool:
    """Whether all its ranks have told the steps of the next window."""
    needed = known.judged + STRIDE
    if int(job.ranks[0].steps.step[-1]) < needed:
        return False
    lasts = [int(rank.steps.step[-1]) if len(rank.steps) >= WINDOW else -1 for rank in job.ranks]
    if min(lasts) < needed:
        return False
    # Where steps were lost, or come faster than they can be looked at, it goes on with those that are there.
    firsts = max(int(rank.steps.step[0]) for rank in job.ranks)
    known.judged = max(known.judged, firsts + WINDOW - STRIDE, min(lasts) - _CATCH_UP * STRIDE)
    return min(lasts) >= known.judged + STRIDE


def _own(steps: Steps, last: int) -> Floats:
    """What this rank needed itself in each step of the window that ends with `last`."""
    numbers = steps.step
    stop = len(numbers) - (int(numbers[-1]) - last)
    if not 0 < stop <= len(numbers) or numbers[stop - 1] != last:  # some are missing, or done again
        stop = int(np.searchsorted(numbers, last, side="right"))
    stop = max(stop, WINDOW)
    cut = slice(stop - WINDOW, stop)
    waited = steps.sync_ms[cut]
    own: Floats = steps.ms[cut] - np.where(np.isnan(waited), 0.0, waited)
    return own


def _learn(known: _Job, windows: Floats, medians: Floats) -> None:
    known.early.append(medians)
    if known.windows == _LEARNT:
        known.usual = np.maximum(np.median(known.early, axis=0), 1e-9)
        off = np.median(np.abs(windows - medians[:, None]), axis=1) / known.usual
        known.wobble = np.full(known.ranks, max(_LEAST_WOBBLE, _OF_STEPS * float(np.median(off))))
        known.early = []


def _compare(jobs: Sequence[tuple[_Job, Floats]]) -> None:
    """Each rank with itself and with its peers; columns over the ranks of all jobs."""
    counts = np.array([known.ranks for known, _ in jobs], np.intp)
    group = np.repeat(np.arange(len(jobs)), counts)
    usual = np.concatenate([known.usual for known, _ in jobs])
    wobble = np.concatenate([known.wobble for known, _ in jobs])
    is_slow = np.concatenate([known.is_slow for known, _ in jobs])
    hits = np.concatenate([known.hits for known, _ in jobs])
    misses = np.concatenate([known.misses for known, _ in jobs])
    is_settled = np.repeat([known.windows > _SETTLED for known, _ in jobs], counts)
    ratios = np.concatenate([own for _, own in jobs]) / usual
    common = reference(ratios, group, len(jobs))
    excess = ratios / common[group] - 1
    usually = np.maximum(wobble, reference(wobble, group, len(jobs))[group])  # of one, or of all of them
    is_high = (excess >= limit(usually)) & is_settled
    hits = np.where(is_high, hits + 1, 0)
    misses = np.where(is_over(excess, usually), misses + 1, 0)
    is_slow = (is_slow & (misses < OVER_AFTER)) | (hits >= IN_A_ROW)
    # What is usual follows slowly, and not where it may be trouble.
    is_calm = ~is_slow & ~is_high
    usual = np.where(is_calm, usual * (1 + _FOLLOWS * np.clip(excess, -0.05, 0.05)), usual)
    wobble = np.where(is_calm, wobble + _WOBBLE_FOLLOWS * (np.abs(excess) - wobble), wobble)
    stops = np.cumsum(counts).tolist()
    for at, (known, _) in enumerate(jobs):
        cut = slice(stops[at] - known.ranks, stops[at])
        known.usual, known.wobble, known.excess = usual[cut], wobble[cut], excess[cut]
        known.hits, known.misses, known.is_slow = hits[cut], misses[cut], is_slow[cut]
        known.common = float(common[at])


def _node(rank: RankView, scene: Scene) -> str:
    if rank.process is not None and rank.process.node:
        return rank.process.node
    return scene.telemetry.places[rank.row].node if rank.row is not None else ""


def _first_told(job: JobView, known: _Job, ranks: Sequence[int]) -> _Slow:
    by_excess = sorted(ranks, key=lambda at: -known.excess[at])
    first = by_excess[0]
    excess = float(known.excess[first])
    if len(by_excess) > 1 and excess >= _CLEARLY * known.excess[by_excess[1]]:
        by_excess = [first]
    steps = job.ranks[first].steps
    waited = np.nan_to_num(steps.sync_ms[-_LOOK_BACK:])
    ratios = (steps.ms[-_LOOK_BACK:] - waited) / (known.usual[first] * known.common)
    at = len(steps) - len(ratios) + since(ratios, excess)
    return _Slow(
        tuple(job.ranks[one].rank for one in sorted(by_excess)),
        int(steps.end_ms[at] - steps.ms[at]),
        int(steps.step[at]),
        _cause(steps, at, excess * float(known.usual[first])),
        excess,
    )


def _cause(steps: Steps, at: int, longer_ms: float) -> str:
    """Whether it is its data that takes longer, or what it computes."""
    before, after = steps.data_ms[max(at - 32, 0) : at], steps.data_ms[at:]
    if not len(before) or np.isnan(before).all() or np.isnan(after).all():
        return "compute"
    return "data" if np.nanmedian(after) - np.nanmedian(before) > longer_ms / 2 else "compute"


def _finding(job: JobView, known: _Job, node: str, slow: _Slow, scene: Scene) -> Finding:
    ranks = [rank for rank in job.ranks if rank.rank in slow.ranks]
    at = max((job.ranks.index(rank) for rank in ranks), key=lambda one: float(known.excess[one]))
    if known.hits[at] >= IN_A_ROW:
        slow.excess = float(known.excess[at])
    one = ranks[0] if len(ranks) == 1 else None
    figures = {"slowdown": 1 + slow.excess, "step": float(slow.onset_step)}
    evidence = [
        f"over windows of {WINDOW} steps, against itself before and against its peers at the same steps",
        f"the ranks of this job wander by {float(np.median(known.wobble)):.1%}",
    ]
    of_job_too = _job_slowdown(job.ranks[at].steps, slow.onset_ms)
    if of_job_too is not None:
        figures["job_slowdown"] = of_job_too
        evidence.append(f"steps of the whole job take {of_job_too:.2f} times as long as before")
    who = f"rank {slow.ranks[0]}" if one is not None else ranks_name(slow.ranks)
    where = f" on {node}" if node else ""
    needs = "waits" if slow.cause == "data" else "computes"
    what = f"{needs if one is not None else needs[:-1]}{' for data' if slow.cause == 'data' else ''}"
    look = (
        "Look at the storage and the loader's workers there"
        if slow.cause == "data"
        else "Compare its GPU's clock, temperature and links and its node's load with those of its peers "
        "(`trilens gpus`)"
    )
    return Finding(
        CODE,
        FindingKind.STRAGGLER,
        of_job(job, scene, one, node=node or None),
        Severity.WARNING,
        slow.cause,
        slow.onset_ms,
        f"{who}{where} of {job_name(job)} {what} {1 + slow.excess:.2f} times as long as before, "
        f"since step {slow.onset_step}; the others wait",
        f"{look}; if it lasts, restart the job from its checkpoint without {node or 'that node'}.",
        0.9,
        tuple(map(Evidence, evidence)),
        (),
        figures,
    )


def _job_slowdown(steps: Steps, onset_ms: int) -> float | None:
    before, after = steps.ms[steps.end_ms <= onset_ms][-32:], steps.ms[steps.end_ms > onset_ms][-32:]
    if len(before) < 3 or len(after) < 3:
        return None
    return float(np.median(after) / np.median(before))
