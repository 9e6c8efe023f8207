"""D001 stall: a training job makes no steps, for longer than its own rhythm explains.

What it finds: no step has ended for longer than this run may take for one, by its recent steps and the
pauses it is known to make; and what stands in the way: a rank that waits for data, whose interpreter is
locked, that is dead or went with its node, or a collective that does not end.
Why it costs: all GPUs of the job wait, and PyTorch's own watchdog gives up after 10 to 30 minutes.
Example: steps of 2 s, and then none for 10 s; rank 5 is in `data` while all others are in `grad_sync`.
What to do: the finding says it, by cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.detect.fates import SILENT_MS, Fate, Surroundings
from trilens.detect.job_memory import JobMemory
from trilens.detect.looking import Looking
from trilens.detect.rhythm import Rhythm
from trilens.detect.scene import ToldBy
from trilens.detect.stall_causes import (
    Standing,
    Verdict,
    is_no_pause,
    is_sharper,
    node_of,
    verdict_of,
    what_it_is,
    what_to_do,
    where_they_are,
)
from trilens.detect.wording import job_name, seconds
from trilens.model.finding import Evidence, Finding, FindingKind, Severity, Subject
from trilens.model.life import Phase
from trilens.model.run import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.detect.scene import JobView, RankView, Scene
    from trilens.model.workload import Doubt

CODE: Final = "D001"

ANNOUNCED: Final = frozenset({"checkpoint", "validation", "evaluation", "eval", "compile", "compilation"})
_ANNOUNCED_MS: Final = 30 * 60_000  # the first of its kind; later ones by how long those before took
_ANNOUNCED_LEAST_MS: Final = 5 * 60_000
_ANNOUNCED_FACTOR: Final = 5
_ENDING_MS: Final = 120_000  # ranks do not end at one moment: logs are closed, a model is saved
_SCRAPED_MS: Final = 5_000  # metrics show less of the rhythm than records do
_SHARPEN_MS: Final = 60_000  # for so long a finding may still learn whom it is about


class _Pause(NamedTuple):
    what: str
    since_ms: int
    lasted_ms: float


@dataclass
class _Job:
    """What is remembered of one."""

    rhythm: Rhythm = field(default_factory=Rhythm)
    attempt: int = -1
    first_ms: int = 0  # when it was first seen
    paused_ms: int = 0  # when an announced pause was last seen
    pause: _Pause | None = None  # that is announced now
    longest_ms: dict[str, float] = field(default_factory=dict)  # of those that ended, by what they were
    onset_ms: int | None = None  # of the stall that lasts
    found_ms: int = 0
    verdict: Verdict | None = None


class Stall:
    code = CODE

    def __init__(self) -> None:
        self._jobs: JobMemory[_Job] = JobMemory()
        self._looking = Looking()

    def look(self, scene: Scene) -> Iterator[Finding]:
        now_ms = scene.now_ms
        self._looking.look(now_ms)
        around = Surroundings(scene)
        for job in scene.jobs:
            if job.serves or not job.ranks:
                continue
            known = self._jobs.get(job, now_ms) or self._jobs.put(job, now_ms, _Job(first_ms=now_ms))
            finding = self._look_at(job, known, around, scene)
            if finding is None:
                known.onset_ms = known.verdict = None
            else:
                yield finding

    def _look_at(self, job: JobView, known: _Job, around: Surroundings, scene: Scene) -> Finding | None:
        leader = next((rank for rank in job.ranks if len(rank.steps)), job.ranks[0])
        attempt = leader.process.attempt if leader.process is not None else job.attempt
        if attempt != known.attempt:
            known.rhythm, known.attempt = Rhythm(known.rhythm), attempt
            known.onset_ms = known.verdict = None
        known.rhythm.learn(leader.steps)
        if job.phase not in (None, Phase.RUNNING) or _is_done(job):
            return None
        last_ms, last_step = _last_step(job, known)
        is_scraped = leader.told_by is ToldBy.METRICS
        limit = known.rhythm.patience(last_step, last_ms, is_announcing=not is_scraped)
        more_ms = _SCRAPED_MS if is_scraped else 0
        pausing = [rank for rank in job.ranks if rank.doing in ANNOUNCED]
        if pausing:
            return self._in_pause(job, known, pausing, last_ms, scene)
        _end_pause(known)
        # The cheap question first: nearly every job moves.
        limit_ms = limit.ms + more_ms
        if all(_moves(rank, known, limit_ms, scene.now_ms) for rank in job.ranks):
            return None
        standing = self._standing(job, known, around, limit_ms, scene.now_ms)
        if limit.for_pause is not None and (standing is None or not is_no_pause(standing, limit_ms)):
            limit = limit.for_pause
            limit_ms = limit.ms + more_ms
            standing = self._standing(job, known, around, limit_ms, scene.now_ms)
        if standing is None:
            return None
        limit_text = f"{limit.why}; after {seconds(limit_ms)} without one it counts as stalled"
        return self._finding(job, known, standing, limit_text, limit.is_settled, scene)

    def _in_pause(
        self, job: JobView, known: _Job, pausing: Sequence[RankView], last_ms: int, scene: Scene
    ) -> Finding | None:
        what = pausing[0].doing or ""
        since_ms = min(rank.doing_since_ms or scene.now_ms for rank in pausing)
        heard_ms = max(rank.heard_ms for rank in pausing)
        if known.pause is not None and known.pause.what != what:
            _end_pause(known)
        known.pause = _Pause(what, since_ms, heard_ms - since_ms)
        known.paused_ms = max(known.paused_ms, heard_ms)
        longest_ms = known.longest_ms.get(what)
        allowed_ms = float(_ANNOUNCED_MS)
        if longest_ms is not None:
            allowed_ms = min(max(_ANNOUNCED_FACTOR * longest_ms, _ANNOUNCED_LEAST_MS), _ANNOUNCED_MS)
        if known.pause.lasted_ms <= allowed_ms:
            return None
        rank = pausing[0] if len(pausing) == 1 else None
        known.onset_ms = known.onset_ms or since_ms
        known.verdict = known.verdict or Verdict(what, rank, node_of(pausing), 0.8)
        standing = Standing(list(job.ranks), [], list(pausing), last_ms)
        limit = (
            f"the {what} before took at most {seconds(longest_ms or 0)}; {seconds(allowed_ms)} are allowed"
        )
        return self._told(job, known, standing, limit, scene)

    def _standing(
        self, job: JobView, known: _Job, around: Surroundings, limit_ms: float, now_ms: int
    ) -> Standing | None:
        alive: list[RankView] = []
        missing: list[tuple[RankView, Fate]] = []
        finished = 0
        for rank in job.ranks:
            fate = around.fate(rank, job)
            if fate is Fate.ALIVE:
                alive.append(rank)
            elif fate is Fate.FINISHED:
                finished += 1
            else:
                missing.append((rank, fate))
        if finished:
            limit_ms = max(limit_ms, _ENDING_MS)
        tells = any(len(rank.steps) for rank in alive)
        steppers = [rank for rank in alive if len(rank.steps) or not tells]
        stuck = [rank for rank in steppers if not _moves(rank, known, limit_ms, now_ms)]
        onset_ms = max(known.paused_ms, max(_ended_ms(rank, known) for rank in stuck or job.ranks))
        if stuck:
            return Standing(alive, missing, stuck, onset_ms)
        # Nobody is left to tell that no step ends. That a process is dead is D010's to say.
        is_frozen = not alive and any(fate is Fate.FROZEN for _, fate in missing)
        if is_frozen and self._looking.is_settled and now_ms - onset_ms > limit_ms:
            return Standing(alive, missing, stuck, onset_ms)
        return None

    def _finding(
        self, job: JobView, known: _Job, standing: Standing, limit: str, is_settled: bool, scene: Scene
    ) -> Finding:
        now_ms = scene.now_ms
        if known.onset_ms is None:
            known.onset_ms, known.found_ms = standing.onset_ms, now_ms
        verdict = known.verdict
        if verdict is None or now_ms - known.found_ms <= _SHARPEN_MS:
            new = verdict_of(job, standing, scene)
            if verdict is None or is_sharper(new, verdict):
                if not is_settled:
                    new = new._replace(confidence=min(new.confidence, 0.7))
                known.verdict = new
        return self._told(job, known, standing, limit, scene)

    def _told(self, job: JobView, known: _Job, standing: Standing, limit: str, scene: Scene) -> Finding:
        verdict, onset_ms = known.verdict, known.onset_ms
        assert verdict is not None
        assert onset_ms is not None
        rank = verdict.rank
        doubts: dict[str, Doubt] = {}
        if rank is not None and rank.row is not None:
            doubts = {doubt.code: doubt for doubt in scene.suspects.get(rank.row, ())}
        process = rank.process if rank is not None else None
        place = scene.telemetry.places[rank.row] if rank is not None and rank.row is not None else None
        subject = Subject(
            workload=job.workload,
            team=job.team,
            run=job.run.run if job.run is not None else None,
            rank=rank.rank if rank is not None else None,
            pod=place.pod if place is not None else None,
            cluster=place.cluster if place is not None else job.workload.cluster if job.workload else None,
            node=(process.node or None if process is not None else None) or verdict.node,
            gpu=place.uuid if place is not None else None,
            job_name=job.name or None,
        )
        evidence = [Evidence(limit), *map(Evidence, verdict.evidence)]
        evidence.append(Evidence(where_they_are(standing)))
        waited_ms = scene.now_ms - onset_ms
        return Finding(
            CODE,
            FindingKind.STALL,
            subject,
            Severity.CRITICAL,
            verdict.cause,
            onset_ms,
            f"{job_name(job)} makes no steps: {what_it_is(verdict)}",
            what_to_do(verdict, job),
            verdict.confidence * (0.7 if doubts else 1.0),
            tuple(evidence),
            tuple(doubts.values()),
            {"waited_seconds": waited_ms / 1000, "ranks": len(job.ranks)},
        )


def _end_pause(known: _Job) -> None:
    pause = known.pause
    if pause is not None:
        known.longest_ms[pause.what] = max(known.longest_ms.get(pause.what, 0.0), pause.lasted_ms)
        known.pause = None


def _ended_ms(rank: RankView, known: _Job) -> int:
    """The end of its last step; where none is known, its start, or when we began to look: it may have made
    steps before that."""
    if len(rank.steps):
        return int(rank.steps.end_ms[-1])
    started_ms = rank.process.started_ms if rank.process is not None else rank.heard_ms
    return max(started_ms, known.first_ms)


def _moves(rank: RankView, known: _Job, limit_ms: float, now_ms: int) -> bool:
    """Whether its last step is not long ago, as of when it was last heard. What has not been heard for long
    is not said to move."""
    process = rank.process
    if process is None:
        if now_ms - rank.heard_ms > SILENT_MS:
            return False
    elif process.ending is not None:
        return process.ending is Ending.FINISHED
    elif process.step is not None and len(rank.steps) and process.step > int(rank.steps.step[-1]) + 1:
        return True  # its records come later than its heartbeats: the disk is slow
    return rank.heard_ms - max(_ended_ms(rank, known), known.paused_ms) <= limit_ms


def _last_step(job: JobView, known: _Job) -> tuple[int, int]:
    """When the last step of any rank ended, and which it was."""
    return max(
        (_ended_ms(rank, known), int(rank.steps.step[-1]) if len(rank.steps) else -1) for rank in job.ranks
    )


def _is_done(job: JobView) -> bool:
    total = job.run.total_steps if job.run is not None else None
    if total is None:
        return False
    steps = [int(rank.steps.step[-1]) for rank in job.ranks if len(rank.steps)]
    return bool(steps) and max(steps) + 1 >= total
