"""D002 hang: the ranks of a job wait in a collective that does not end, and which one is not in it.

What it finds: GPUs at 100 % utilisation that take little power, use no tensor cores and move nothing over
their links, at most GPUs of one job; and the one that is otherwise. Where the program tells, also ranks that
wait in `grad_sync` or at a barrier while no step ends.
Why it costs: nothing fails. PyTorch's watchdog waits 10 to 30 minutes, and utilisation says that all is well.
Example: seven of eight GPUs at 100 % and 125 W, where they took 690 W before; the eighth at 0 %.
What to do: see what the odd rank does (py-spy, its node, its GPU), then restart the job from its checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.job_memory import JobMemory
from trilens.detect.odd_rank import Odd, odd_ones
from trilens.detect.readings import WORKS, LatestReadings, Usual, began
from trilens.detect.rhythm import Rhythm
from trilens.detect.scene import Figure, ToldBy
from trilens.detect.stall import ANNOUNCED
from trilens.detect.subjects import DOUBTED, doubts_of, of_job, of_row
from trilens.detect.wording import job_name, seconds
from trilens.model.finding import Evidence, Finding, FindingKind, Severity
from trilens.model.life import Phase
from trilens.model.rank_names import ranks_name
from trilens.model.step_phases import DATA_PHASES, SYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.detect.readings import Flags
    from trilens.detect.scene import JobView, Place, RankView, Scene, Telemetry
    from trilens.model.finding import Subject

CODE: Final = "D002"

SPINS: Final = 0.95  # utilisation: a kernel that waits runs all the time
RESTS: Final = 0.10  # nothing runs
LITTLE_POWER: Final = 0.5  # of the usual at work: a hang takes 0.18 of it on an H200, 0.4 on small cards
_NO_TENSOR: Final = 0.02  # a collective uses none
_LITTLE_TRAFFIC: Final = 0.1  # of the usual on its NVLinks: a slow collective moves something
_TRAFFIC: Final = 1e7  # bytes a second, for a link to be in use at all

ALONE_MS: Final = 15_000  # telemetry alone: no collective takes so long without moving anything
ALONE_UNNAMED_MS: Final = 30_000  # where no GPU differs: it may be a barrier in the program
SAVING_MS: Final = 120_000  # where the odd one is the first of the job: it may save while others wait
_SAVED_MS: Final = 10_000  # a look that came and went: shorter ones are a batch that was late
_SLOW_READINGS: Final = 2
_STOPPED_MS: Final = 8_000  # since its last step: before that nobody looks closer
_WAITS_MS: Final = 5_000  # in a collective: less than that, and it is one like all others
_SCRAPED_MS: Final = 5_000  # metrics show less of the rhythm than records do
_NOTE_MS: Final = 60_000  # before the onset: a barrier that timed out tells of what was before
_SHARPEN_MS: Final = 60_000  # for so long a finding may still learn whom it is about


class _States(NamedTuple):
    """Of all GPUs."""

    spins: Flags  # a kernel runs, and does nothing
    rests: Flags  # nothing runs
    works: Flags


class _Gpus(NamedTuple):
    """A job's GPUs, as rows."""

    spinning: list[int]
    resting: list[int]
    working: list[int]
    unknown: list[int]

    @property
    def look_hung(self) -> bool:
        """Most wait for something that does not come."""
        return bool(self.spinning) and 2 * len(self.spinning) >= self.total

    @property
    def total(self) -> int:
        return sum(map(len, self))


@dataclass
class _Job:
    """What is remembered of one."""

    paused_ms: int = 0  # when an announced pause was last seen
    onset_ms: int | None = None  # of the hang that lasts
    found_ms: int = 0
    odd: Odd | None = None
    longest_ms: float = 0.0  # that its GPUs looked hung, and went on


class _Hung(NamedTuple):
    onset_ms: int
    odd: Odd
    confidence: float
    evidence: tuple[str, ...]


class Hang:
    code = CODE

    def __init__(self) -> None:
        self._power = Usual(Figure.POWER, follows_to=0.7)
        self._traffic = Usual(Figure.NVLINK, follows_to=0.3)
        self._jobs: JobMemory[_Job] = JobMemory()

    def look(self, scene: Scene) -> Iterator[Finding]:
        now_ms = scene.now_ms
        states = self._states(scene.telemetry)
        hung = _jobs_that_look_hung(scene.jobs, states.spins)
        for at, job in enumerate(scene.jobs):
            if job.serves or job.phase not in (None, Phase.RUNNING):
                continue
            known = self._jobs.get(job, now_ms)
            is_pausing = any(rank.doing in ANNOUNCED for rank in job.ranks)
            if not (is_pausing or hung[at]) and known is None and not _may_have_stopped(job):
                continue
            if known is None:
                known = self._jobs.put(job, now_ms, _Job())
            found = None
            if is_pausing:
                known.paused_ms = now_ms
            else:
                found = self._look_at(job, known, _gpus(job, states), scene)
            if found is None:
                known.onset_ms = known.odd = None
            else:
                yield self._finding(job, known, found, scene)

    def _states(self, telemetry: Telemetry) -> _States:
        latest = LatestReadings(telemetry)
        self._power.look(telemetry, latest)
        if Figure.NVLINK in telemetry.figures:
            self._traffic.look(telemetry, latest)
        runs = latest.of(Figure.UTILIZATION)
        is_known = self._power.is_known & self._power.is_whole  # instances of one GPU share its power
        is_low = is_known & (latest.of(Figure.POWER) < LITTLE_POWER * self._power.levels)
        spins = is_low & (runs >= SPINS) & ~(latest.of(Figure.TENSOR) > _NO_TENSOR)
        if Figure.NVLINK in telemetry.figures:
            usual, now = self._traffic.levels, latest.of(Figure.NVLINK)
            spins &= ~((usual > _TRAFFIC) & (now > _LITTLE_TRAFFIC * usual))
        return _States(spins, is_low & (runs <= RESTS), is_known & ~is_low & (runs >= WORKS))

    def _look_at(self, job: JobView, known: _Job, gpus: _Gpus, scene: Scene) -> _Hung | None:
        if any(len(rank.steps) for rank in job.ranks):
            return self._by_steps(job, known, gpus, scene)
        return self._by_gpus(job, known, gpus, scene)

    def _by_steps(self, job: JobView, known: _Job, gpus: _Gpus, scene: Scene) -> _Hung | None:
        """No step ends, and most ranks wait for others."""
        steppers = [rank for rank in job.ranks if len(rank.steps)]
        alive = [rank for rank in job.ranks if rank.process is None or rank.process.ending is None]
        ended_ms = max(int(rank.steps.end_ms[-1]) for rank in steppers)
        onset_ms = max(ended_ms, known.paused_ms)
        heard_ms = max(rank.heard_ms for rank in steppers)
        if _is_done(job, steppers) or heard_ms - onset_ms < _STOPPED_MS or any(map(_is_ahead, steppers)):
            return None
        if len(alive) < len(job.ranks):
            return None  # it ends; or a rank is gone, which a crash or a stall tells
        waiting = [rank for rank in alive if _waits(rank)]
        odd = odd_ones(job, gpus.spinning, gpus.resting, scene, onset_ms - _NOTE_MS)
        is_told = odd.by_note or len(waiting) * 2 > len(alive)
        if not (is_told or gpus.look_hung) or _wait_for_data(odd, alive):
            return None
        limit_ms = _patience_ms(steppers, ended_ms, odd, gpus, scene)
        if any(rank.row in gpus.working for rank in odd.ranks):
            limit_ms = max(limit_ms, SAVING_MS)  # it may validate while the others wait
        if heard_ms - onset_ms <= limit_ms:
            return None
        said = [f"no step has ended for {seconds(heard_ms - onset_ms)}; {seconds(limit_ms)} would be usual"]
        if waiting:
            said.append(f"{len(waiting)} of {len(alive)} ranks are in a collective")
        if gpus.look_hung:
            said.append(_spinning_text(gpus, scene))
        sure = 0.98 if odd.by_recorder else 0.95 if is_told and gpus.look_hung else 0.85
        return _Hung(onset_ms, odd, sure if odd.ranks or odd.rows else sure - 0.1, tuple(said))

    def _by_gpus(self, job: JobView, known: _Job, gpus: _Gpus, scene: Scene) -> _Hung | None:
        """Nobody tells of steps. What only looks so, ends; and what ended before may come again."""
        if gpus.total < 2 or not gpus.look_hung or gpus.working or gpus.unknown:
            self._went_on(known, scene)
            return None
        stretch = _stretch(scene.telemetry, gpus, self._power.levels)
        if stretch is None:
            return None
        known.longest_ms = max(known.longest_ms, stretch.longest_before_ms)
        odd = odd_ones(job, gpus.spinning, gpus.resting, scene, stretch.onset_ms)
        needed_ms: float = ALONE_MS if odd.rows else ALONE_UNNAMED_MS
        if known.longest_ms >= _SAVED_MS:
            needed_ms = max(needed_ms, 2 * known.longest_ms + 5_000)  # how long it saves is known
        elif odd.rows and _may_save(odd.rows, job.rows, scene):
            needed_ms = SAVING_MS
        if stretch.readings < _SLOW_READINGS or scene.now_ms - stretch.onset_ms < needed_ms:
            return None
        return _Hung(
            stretch.onset_ms,
            odd,
            0.85 if odd.rows else 0.7,
            (_spinning_text(gpus, scene), "no program tells of steps"),
        )

    def _went_on(self, known: _Job, scene: Scene) -> None:
        if known.onset_ms is not None:
            known.longest_ms = max(known.longest_ms, scene.now_ms - known.onset_ms)

    def _finding(self, job: JobView, known: _Job, hung: _Hung, scene: Scene) -> Finding:
        if known.onset_ms is None:
            known.onset_ms, known.found_ms = hung.onset_ms, scene.now_ms
        odd = known.odd = _sharper(known.odd, hung.odd, scene.now_ms - known.found_ms)
        subject = _subject(job, odd, scene)
        cause = "kernel" if _is_alone(job) else "rank-missing" if odd.ranks or odd.rows else "all-waiting"
        doubts = doubts_of(scene, job.rows)
        return Finding(
            CODE,
            FindingKind.HANG,
            subject,
            Severity.CRITICAL,
            cause,
            known.onset_ms,
            f"{job_name(job)} has hung: {_WHAT.get(cause) or _who(odd, subject)}",
            _what_to_do(job, odd, subject),
            hung.confidence * (DOUBTED if doubts else 1.0),
            (*map(Evidence, hung.evidence), *map(Evidence, odd.why)),
            doubts,
            {
                "waited_seconds": (scene.now_ms - known.onset_ms) / 1000,
                "ranks": max(len(job.ranks), len(job.rows)),
            },
        )


def _sharper(before: Odd | None, now: Odd, for_ms: float) -> Odd:
    """Whom it is about does not change with every look. A flight recorder may speak late, and knows best."""
    if before is None or (now.by_recorder and not before.by_recorder):
        return now
    is_open = not before.is_one and for_ms <= _SHARPEN_MS
    return now if is_open and now.is_one else before


def _jobs_that_look_hung(jobs: Sequence[JobView], spins: Flags) -> list[bool]:
    """Most jobs have no GPU that spins: all of them are asked at once."""
    if not spins.any():
        return [False] * len(jobs)
    counts = np.array([len(job.rows) for job in jobs], np.intp)
    rows = np.fromiter(chain.from_iterable(job.rows for job in jobs), np.intp, int(counts.sum()))
    of_job = np.repeat(np.arange(len(jobs)), counts)
    spinning = np.bincount(of_job[spins[rows]], minlength=len(jobs))
    found: list[bool] = ((spinning > 0) & (2 * spinning >= counts)).tolist()
    return found


def _gpus(job: JobView, states: _States) -> _Gpus:
    found = _Gpus([], [], [], [])
    for row in job.rows:
        if states.spins[row]:
            found.spinning.append(row)
        elif states.rests[row]:
            found.resting.append(row)
        elif states.works[row]:
            found.working.append(row)
        else:
            found.unknown.append(row)
    return found


def _may_have_stopped(job: JobView) -> bool:
    """Whether some rank that tells its steps has not told one for a while; the cheap question."""
    for rank in job.ranks:
        if rank.notes or (len(rank.steps) and rank.heard_ms - rank.steps.end_ms[-1] >= _STOPPED_MS):
            return True
        if len(rank.steps):
            return False  # all wait for each other: the first that tells stands for all
    return False


def _is_done(job: JobView, steppers: Sequence[RankView]) -> bool:
    total = job.run.total_steps if job.run is not None else None
    return total is not None and max(int(rank.steps.step[-1]) for rank in steppers) + 1 >= total


def _is_ahead(rank: RankView) -> bool:
    """Its records come later than its heartbeats."""
    return rank.process is not None and (rank.process.step or 0) > int(rank.steps.step[-1]) + 1


def _waits(rank: RankView) -> bool:
    """In a collective for longer than it takes when steps are only slow."""
    since_ms = rank.doing_since_ms
    return rank.doing in SYNC_PHASES and since_ms is not None and rank.heard_ms - since_ms >= _WAITS_MS


def _wait_for_data(odd: Odd, alive: Sequence[RankView]) -> bool:
    """Those that the others wait for wait for data: nothing hangs, it is slow."""
    late = odd.ranks or alive
    return all(rank.doing in DATA_PHASES for rank in late)


def _patience_ms(steppers: Sequence[RankView], ended_ms: int, odd: Odd, gpus: _Gpus, scene: Scene) -> float:
    """How long no step may end: less where GPUs or notes say that nobody saves."""
    leader = steppers[0]
    rhythm = Rhythm()
    rhythm.learn(leader.steps)
    last_step = max(int(rank.steps.step[-1]) for rank in steppers)
    is_scraped = leader.told_by is ToldBy.METRICS
    limit = rhythm.patience(last_step, ended_ms, is_announcing=not is_scraped)
    more_ms = _SCRAPED_MS if is_scraped else 0
    for_pause_ms = (limit.for_pause or limit).ms + more_ms
    if odd.is_one and (gpus.look_hung or odd.by_note):
        rows = [row for rank in odd.ranks if (row := rank.row) is not None] or list(odd.rows)
        rows_of_job = [rank.row for rank in steppers if rank.row is not None]
        if odd.by_note or (rows and not _may_save(rows, rows_of_job, scene)):
            return limit.ms + more_ms
    if len(gpus.spinning) == gpus.total > 0:  # who saves launches nothing
        return min(for_pause_ms, max(limit.ms + more_ms, ALONE_UNNAMED_MS))
    return for_pause_ms


def _may_save(odd: Sequence[int], rows: Sequence[int], scene: Scene) -> bool:
    """Whether that is the first GPU of the job, or the first of each node: they save while others wait."""
    places = scene.telemetry.places
    in_order = sorted(rows, key=lambda row: (*_order(places[row]), row))
    first: dict[str, int] = {}
    for row in in_order:
        first.setdefault(places[row].node, row)
    return list(odd) == in_order[:1] or set(odd) == set(first.values())


def _order(place: Place) -> tuple[int, str, int]:
    """By rank; where nobody tells it, by pod: master-0 and worker-0 come before the others."""
    number = int(place.number) if place.number.isdigit() else 0
    return (place.rank if place.rank is not None else -1, place.pod.name if place.pod else place.node, number)


class _Stretch(NamedTuple):
    onset_ms: int
    readings: int
    longest_before_ms: float  # of those in the window that ended


def _stretch(telemetry: Telemetry, gpus: _Gpus, usual: NDArray[np.float64]) -> _Stretch | None:
    """Since when these GPUs look as they do, by all columns in which they tell."""
    rows = gpus.spinning
    runs, power = telemetry.figures[Figure.UTILIZATION][rows], telemetry.figures[Figure.POWER][rows]
    told = ~np.isnan(runs) & ~np.isnan(power)
    spins = (runs >= SPINS) & (power < LITTLE_POWER * usual[rows][:, None])
    any_told: Flags = np.logical_or.reduce(told, axis=0)
    most = spins.sum(axis=0) * 2 > told.sum(axis=0)
    first = began(most, any_told)
    if first is None:
        return None
    columns = np.flatnonzero(any_told)
    is_so = np.concatenate([[False], most[columns[columns < first]], [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(is_so))
    before = columns[columns < first]
    spans = [
        float(telemetry.times_ms[before[stop - 1]] - telemetry.times_ms[before[start]])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    ]
    return _Stretch(
        int(telemetry.times_ms[first]), int(np.count_nonzero(columns >= first)), max(spans, default=0.0)
    )


def _subject(job: JobView, odd: Odd, scene: Scene) -> Subject:
    ranks = job.ranks if _is_alone(job) else odd.ranks
    if len(ranks) == 1:
        return of_job(job, scene, ranks[0])
    if not odd.ranks and len(odd.rows) == 1:
        return of_row(job, scene, odd.rows[0])
    return of_job(job, scene, node=odd.node)


_WHAT: Final = {
    "kernel": "its GPU runs a kernel that does not end",
    "all-waiting": "all its ranks wait in a collective in which nothing moves",
}


def _is_alone(job: JobView) -> bool:
    return max(len(job.ranks), len(job.rows)) < 2


def _who(odd: Odd, subject: Subject) -> str:
    if subject.rank is not None:
        where = f" on {subject.node}" if subject.node else ""
        return f"rank {subject.rank}{where} is not in the collective in which the others wait"
    if subject.gpu is not None:
        return f"a GPU on {subject.node} is not in the collective in which the others wait"
    if odd.ranks:
        return (
            f"{ranks_name([rank.rank for rank in odd.ranks])} are not in the collective in which others wait"
        )
    where = f" of {odd.node}" if odd.node else ""
    return f"{len(odd.rows)} GPUs{where} are not in the collective in which the others wait"


def _what_to_do(job: JobView, odd: Odd, subject: Subject) -> str:
    run = f"`trilens runs show {job.run.run}`" if job.run is not None else "`trilens workloads`"
    if not odd.ranks and not odd.rows and not _is_alone(job):
        return (
            "All are in it: look at the network between the nodes and at the flight recorder's dump, whether "
            f"ranks are in different collectives ({run}); then restart the job from its last checkpoint."
        )
    process = odd.ranks[0].process if len(odd.ranks) == 1 else None
    pid = f" --pid {process.pid}" if process is not None and process.pid is not None else ""
    where = f" on {subject.node}" if subject.node else " on the odd rank's node"
    return (
        f"See what it does: `py-spy dump{pid}`{where}, that node's kernel log and GPU ({run}); then restart "
        "the job from its last checkpoint, without that node if its GPU or network is at fault."
    )


def _spinning_text(gpus: _Gpus, scene: Scene) -> str:
    latest = LatestReadings(scene.telemetry)
    watts = float(np.nanmedian(latest.of(Figure.POWER)[gpus.spinning]))
    return (
        f"{len(gpus.spinning)} of {gpus.total} GPUs at 100% utilisation with {watts:.0f} W, which is no work"
    )
