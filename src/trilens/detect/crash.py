"""D010 crash: a process of a job has failed or is dead while the job is not over, or a pod of it has failed.

What it finds: which rank was the first to go, apart from those that only followed it, and how: an exception,
out of memory, killed, sent away by its node, or gone with it. Who is taken away on purpose (a drain, a
preemption, a smaller job), and who then falls for want of that one, has not crashed.
Why it costs: the others wait for it until a timeout of 10 to 30 minutes, or the job begins again elsewhere.
Example: rank 3 raised OutOfMemoryError; seven others then said "Connection closed by peer".
What to do: the finding says it, by cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.detect.fates import Fate, Surroundings
from trilens.detect.job_memory import JobMemory
from trilens.detect.looking import Looking
from trilens.detect.wording import job_name, rank_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity, Subject
from trilens.model.life import Phase
from trilens.model.rank_errors import is_out_of_memory, only_follows
from trilens.model.rank_names import ranks_name
from trilens.model.run import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.detect.scene import JobView, PodView, RankView, Scene
    from trilens.model.workload import PodKey

CODE: Final = "D010"

_SHOWN_MS: Final = 15 * 60_000
_RESTART_MS: Final = 2 * 60_000  # for so long a container that is up again is told of, or a pod that is gone
_MISSED_MS: Final = 60_000  # by then a process that was killed is taken for lost, however rarely it told
_ROUNDED_MS: Final = 1_000  # Kubernetes writes whole seconds
_LATE_MS: Final = 3_000  # clocks, and the time until an exception has left a program
_ERROR_LENGTH: Final = 200
# How ranks end when another one has gone, if they do not say why.
_ENDS_OF_OTHERS: Final = frozenset({"killed", "exit-code"})
_QUIET: Final = frozenset(
    {Phase.SUCCEEDED, Phase.SUSPENDED, Phase.PREEMPTED, Phase.SPOT_RECLAIMED, Phase.QUEUED, Phase.ADMITTED}
)


class _Fall(NamedTuple):
    """Somebody who has gone."""

    at_ms: int
    cause: str
    said: str  # in its own words, or ours
    is_follower: bool
    confidence: float
    rank: RankView | None = None
    pod: PodView | None = None
    is_exact: bool = True  # `at_ms` is when, not the last moment before


@dataclass
class _Known:
    restarts: dict[PodKey, int] = field(default_factory=dict)
    restarted: dict[PodKey, int] = field(default_factory=dict)  # when that was seen
    told: set[str] = field(default_factory=set)  # pods of which ranks told, in this life or before: by uid,
    # or by name where they do not know that
    root: tuple[tuple[int, ...], _Fall] | None = None  # by the lives that it was found among


class Crash:
    code = CODE

    def __init__(self) -> None:
        self._jobs: JobMemory[_Known] = JobMemory()
        self._looking = Looking()

    def look(self, scene: Scene) -> Iterator[Finding]:
        around: Surroundings | None = None
        self._looking.look(scene.now_ms)
        for job in scene.jobs:
            known = self._jobs.get(job, scene.now_ms) or self._jobs.put(job, scene.now_ms, _Known())
            _count_restarts(job, known, scene.now_ms)
            if job.phase in _QUIET or not _may_have_fallen(job, known):
                known.root = None
                continue
            around = around or Surroundings(scene)
            falls = [*_fallen_ranks(job, around), *_fallen_pods(job, known, scene.now_ms)]
            falls = [fall for fall in falls if scene.now_ms - fall.at_ms <= _SHOWN_MS]
            falls = _without_those_let_go(job, falls)
            if not self._looking.is_settled:
                # What was before may be mended, and who was not heard since may only look for this server.
                falls = [fall for fall in falls if fall.at_ms >= self._looking.since_ms]
            if not falls:
                known.root = None
            elif not _may_follow_another(job, falls, scene.now_ms):
                yield _finding(job, self._root(job, known, falls), falls, scene)

    def _root(self, job: JobView, known: _Known, falls: Sequence[_Fall]) -> _Fall:
        """Told once it is told: what is learnt later of the others does not change who was first, unless
        what seemed to be the first only followed."""
        lives = tuple(rank.process.attempt for rank in job.ranks if rank.process is not None)
        found = first_to_fall(falls)
        if known.root is not None and known.root[0] == lives:
            before = known.root[1]
            if not before.is_follower or found.is_follower:
                return before
        known.root = (lives, found)
        return found


def first_to_fall(falls: Sequence[_Fall]) -> _Fall:
    """The one that the others followed. Who was killed is known only by when it was last heard: one that told
    a reason of its own at that time, or soon after, was the first."""
    own = [fall for fall in falls if not fall.is_follower]
    if not own:
        return min(falls, key=lambda fall: fall.at_ms)
    told = min((fall for fall in own if fall.is_exact), key=lambda fall: fall.at_ms, default=None)
    silent = min((fall for fall in own if not fall.is_exact), key=lambda fall: fall.at_ms, default=None)
    if told is None or silent is None:
        return told or silent or own[0]
    return silent if silent.at_ms + _heartbeat_ms(silent) + _LATE_MS < told.at_ms else told


def _without_those_let_go(job: JobView, falls: list[_Fall]) -> list[_Fall]:
    """Less those that were taken away on purpose, and those that fell for want of one that was, in the same
    life of the job. Who has a reason of its own has crashed, whatever happens around it."""
    asked_ms = [pod.asked_to_go_ms for pod in job.pods if pod.asked_to_go_ms is not None]
    if not asked_ms:
        return falls
    return [fall for fall in falls if _has_own_reason(fall) or not _fell_after(fall, asked_ms)]


def _has_own_reason(fall: _Fall) -> bool:
    return not fall.is_follower and fall.cause not in _ENDS_OF_OTHERS


def _fell_after(fall: _Fall, asked_ms: Sequence[int]) -> bool:
    """A controller that begins a job again takes the others away as well, but after the first one fell."""
    made_ms = fall.pod.created_ms if fall.pod is not None else None
    fell_ms = _at_the_latest_ms(fall) + _ROUNDED_MS
    return any((made_ms or 0) <= at_ms <= fell_ms for at_ms in asked_ms)


def _at_the_latest_ms(fall: _Fall) -> float:
    if fall.pod is not None and fall.pod.state == "Failed" and fall.pod.changed_ms is not None:
        return fall.pod.changed_ms
    return fall.at_ms + (0.0 if fall.is_exact else _heartbeat_ms(fall))


def _heartbeat_ms(fall: _Fall) -> float:
    process = fall.rank.process if fall.rank is not None else None
    return 1000 * process.heartbeat_s if process is not None else 0.0


def _may_follow_another(job: JobView, falls: Sequence[_Fall], now_ms: int) -> bool:
    """Whether all that have gone say that another one has, and there is one of which nothing was heard since:
    it may have been killed, and not be missed yet."""
    if not all(fall.is_follower for fall in falls):
        return False
    first_ms = min(fall.at_ms for fall in falls)
    fallen = {fall.rank.rank for fall in falls if fall.rank is not None}
    is_silent = any(rank.rank not in fallen and rank.heard_ms <= first_ms + _LATE_MS for rank in job.ranks)
    return is_silent and now_ms - first_ms < _MISSED_MS


def _may_have_fallen(job: JobView, known: _Known) -> bool:
    """Cheap: of nearly all jobs nothing has."""
    for rank in job.ranks:
        if rank.process is not None and rank.process.ending in (Ending.FAILED, Ending.LOST):
            return True
    return bool(known.restarted) or any(pod.state == "Failed" for pod in job.pods)


def _count_restarts(job: JobView, known: _Known, now_ms: int) -> None:
    for pod in job.pods:
        before = known.restarts.get(pod.pod)
        if before is not None and pod.restarts > before:
            known.restarted[pod.pod] = now_ms
        known.restarts[pod.pod] = pod.restarts
    if known.restarted:
        known.restarted = {
            pod: at_ms for pod, at_ms in known.restarted.items() if now_ms - at_ms <= _RESTART_MS
        }
    if len(known.restarts) > 2 * len(job.pods):
        known.restarts = {pod.pod: pod.restarts for pod in job.pods}


def _fallen_ranks(job: JobView, around: Surroundings) -> Iterator[_Fall]:
    for rank in job.ranks:
        process = rank.process
        if process is None:
            continue
        fate = around.fate(rank, job)
        pod = around.pod_of(rank, job)
        if fate is Fate.FAILED:
            yield _failed(rank, pod)
        elif fate in (Fate.DEAD, Fate.NODE_GONE, Fate.UNKNOWN):
            cause, said = _how_it_died(fate, pod)
            confidence = 0.7 if fate is Fate.UNKNOWN else 0.95
            if fate is Fate.NODE_GONE and not around.is_lost(process.node):
                said = "nothing is heard of its node any more, neither of its programs nor of its GPUs"
                confidence = 0.85
            at_ms = process.ended_ms or process.heard_ms
            yield _Fall(at_ms, cause, said, False, confidence, rank, pod, is_exact=False)


def _failed(rank: RankView, pod: PodView | None) -> _Fall:
    process = rank.process
    assert process is not None
    error = (process.error or "it said no reason").strip()
    cause = "out-of-memory" if is_out_of_memory(error) else "exception"
    said = error.splitlines()[-1][:_ERROR_LENGTH]
    return _Fall(process.ended_ms or process.heard_ms, cause, said, only_follows(error), 0.98, rank, pod)


def _how_it_died(fate: Fate, pod: PodView | None) -> tuple[str, str]:
    if fate is Fate.NODE_GONE:
        return "node-gone", "its node is gone"
    if pod is not None and pod.state == "Failed":
        return _of_pod(pod)
    return "killed", "it was killed, or its machine is gone: nothing was heard of it"


def _of_pod(pod: PodView) -> tuple[str, str]:
    code = f" with exit code {pod.exit_code}" if pod.exit_code is not None else ""
    match pod.reason:
        case "OOMKilled":
            return "oom-killed", "its container took more memory than it may"
        case "Evicted":
            return "evicted", "its node sent it away, for want of memory or disk"
        case reason if pod.exit_code in (137, 143):
            return "killed", f"its container was killed{code} ({reason or 'no reason given'})"
        case reason:
            return "exit-code", f"its container ended{code} ({reason or 'no reason given'})"


def _fallen_pods(job: JobView, known: _Known, now_ms: int) -> Iterator[_Fall]:
    """Pods that no rank tells of: programs without the SDK, or from before their first word."""
    known.told &= {name for pod in job.pods for name in (pod.pod.uid, pod.pod.name)}
    processes = [rank.process for rank in job.ranks if rank.process is not None]
    known.told.update(name for one in processes if (name := one.pod_uid or one.pod))
    for pod in job.pods:
        restarted_ms = known.restarted.get(pod.pod)
        is_failed = pod.state == "Failed"
        if not is_failed and restarted_ms is None:
            continue
        is_told = pod.pod.uid in known.told or pod.pod.name in known.told
        if is_failed and (is_told or _is_past(pod, job, now_ms)):
            continue
        cause, said = _of_pod(pod)
        at_ms = pod.changed_ms if is_failed and pod.changed_ms is not None else restarted_ms
        if at_ms is not None:
            yield _Fall(at_ms, cause, said, False, 0.9, None, pod)


def _is_past(pod: PodView, job: JobView, now_ms: int) -> bool:
    """Whether a pod that failed is gone, or another one was made after it, for a while."""
    fell_ms = pod.changed_ms or now_ms
    since = [one.created_ms for one in job.pods if one.created_ms is not None and one.created_ms > fell_ms]
    if pod.gone_ms is not None:
        since.append(pod.gone_ms)
    return bool(since) and now_ms - min(since) > _RESTART_MS


def _finding(job: JobView, root: _Fall, falls: Sequence[_Fall], scene: Scene) -> Finding:
    rank, pod = root.rank, root.pod
    process = rank.process if rank is not None else None
    place = scene.telemetry.places[rank.row] if rank is not None and rank.row is not None else None
    node = (process.node if process is not None else None) or (pod.node if pod is not None else None)
    who = rank_name(rank) if rank is not None else f"pod {pod.pod.name}" if pod is not None else "a process"
    others = {fall.rank.rank for fall in falls if fall.rank is not None} - {rank.rank if rank else None}
    evidence = [Evidence(f"{who}: {root.said}")]
    if pod is not None and rank is not None:
        evidence.append(Evidence(f"its pod {pod.pod.name} is {pod.state} {pod.reason}".rstrip()))
    if others:
        evidence.append(Evidence(f"{ranks_name(sorted(others))} followed"))
    subject = Subject(
        workload=job.workload,
        team=job.team,
        run=job.run.run if job.run is not None else None,
        rank=rank.rank if rank is not None else None,
        pod=pod.pod if pod is not None else place.pod if place is not None else None,
        cluster=job.workload.cluster if job.workload is not None else None,
        node=node or None,
        gpu=place.uuid if place is not None else None,
        job_name=job.name or None,
    )
    return Finding(
        CODE,
        FindingKind.CRASH,
        subject,
        Severity.WARNING if job.serves else Severity.CRITICAL,
        root.cause,
        root.at_ms,
        f"{job_name(job)}: {who} has crashed: {root.said}",
        _ACTIONS[root.cause].format(node=node or "the node", who=who),
        root.confidence,
        tuple(evidence),
        figures={"fallen": len(falls)},
    )


_ACTIONS: Final[Mapping[str, str]] = {
    "exception": "Read the error of {who} in its log, mend the program, restart from the last checkpoint.",
    "out-of-memory": "Make {who} need less memory (a smaller batch, sharding), then restart from the last "
    "checkpoint.",
    "oom-killed": "Raise the container's memory limit, or have its data loaders hold less, then restart.",
    "evicted": "Free memory or disk on {node}, or move the job, then restart from the last checkpoint.",
    "exit-code": "Read the log of {who}, the last lines before it ended, then restart.",
    "killed": "Find out what killed {who}: the kernel's log of {node} (out of memory), the scheduler, "
    "a person; then restart from the last checkpoint.",
    "node-gone": "Cordon {node} and restart the job elsewhere from its last checkpoint.",
}
