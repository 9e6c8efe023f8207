"""One episode, lived through and scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.detect import classic
from bench.detect.watched import WatchedWorld
from trilens.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.detect.classic import Fired
    from bench.detect.episodes import Episode, FaultClass
    from bench.detect.watched import Said
    from trilens.model.finding import Subject
    from trilens.simulate.truth import FaultTruth, RankOnGpu

START_MS: Final = 1_768_392_000_000
_CLASSIC_MS: Final = 1_000_000  # after the onset: so long the old rules may take
_SHARPENS_MS: Final = 60_000  # for so long what was named may still be told more exactly


@dataclass(slots=True)
class Score:
    """Of one who looked on. `named_s` is None where it was not named, and where there was nothing to name."""

    named_s: float | None = None
    right_cause: bool = False
    right_rank: bool | None = None  # None where no single rank is to blame
    false: list[str] = field(default_factory=list)  # what was said for nothing, each time


@dataclass(slots=True)
class Outcome:
    name: str
    severity: str
    key: str
    is_fault: bool
    is_fast: bool
    trilens: Score
    slow: Score | None  # with telemetry every 30 s
    classic: Score
    defects: int = 0  # detectors that failed


def run(episode: Episode, *, slow: bool = True, rules: bool = True) -> Outcome:
    """`slow`: with telemetry every 30 s as well; `rules`: the classic ones as well."""
    telling = 128 if episode.told_by == "records" else 0
    world = World(episode.scenario, start_ms=START_MS, seed=episode.seed, telling_ranks=telling)
    watched = WatchedWorld(world, episode.seed, slow=slow, programs_seen=episode.told_by == "metrics")
    while world.now_ms < START_MS + 1000 * episode.seconds:
        watched.go_on()
    one = episode.fault
    truth = world.truth.faults[0] if one is not None and world.truth.faults else None
    if one is not None:
        assert truth is not None, f"{episode.key}: the fault found no target"
        while rules and world.now_ms < truth.from_ms + _CLASSIC_MS:
            watched.go_on_unseen()
    hit = jobs_hit(truth, world.truth.gpus) if truth is not None else frozenset()
    found = classic.fired(watched.samples, START_MS, world.now_ms) if rules else []
    return Outcome(
        episode.name,
        episode.severity,
        episode.key,
        one is not None,
        one is not None and one.is_fast,
        score(watched.fast.said, one, truth, hit),
        score(watched.slow.said, one, truth, hit) if watched.slow is not None else None,
        _score_classic(found, one, truth, watched),
        sum(watched.fast.watch.failures.values()),
    )


def jobs_hit(truth: FaultTruth, gpus: Iterable[RankOnGpu]) -> frozenset[str]:
    """The job, or where it is a node's all that were on it."""
    if truth.job_uid:
        return frozenset({truth.job_uid})
    return frozenset(
        one.job_uid
        for one in gpus
        if truth.node
        and one.node == truth.node
        and one.from_ms <= truth.from_ms
        and (one.to_ms is None or one.to_ms >= truth.from_ms)
    )


def score(
    said: Sequence[Said], one: FaultClass | None, truth: FaultTruth | None, hit: frozenset[str]
) -> Score:
    """`hit` are the jobs that it happens to. What is said elsewhere, or before, is a false alarm."""
    found = Score()
    if one is None or truth is None:
        found.false = [_text(told) for told in said if told.is_new]
        return found
    if one.has_rank:
        found.right_rank = False
    first_ms: int | None = None
    blamed: list[bool] = []
    for told in said:
        finding, is_later = told.finding, told.at_ms >= truth.from_ms
        if is_later and finding.kind in one.named_by and _is_about(finding.subject, truth, hit):
            if first_ms is None:
                first_ms = told.at_ms
                found.named_s = (told.at_ms - truth.from_ms) / 1000
            causes = one.named_by[finding.kind]
            if told.at_ms - first_ms <= _SHARPENS_MS:
                found.right_cause |= causes is None or finding.cause in causes
            if told.at_ms == first_ms and _blames(finding.subject):
                blamed.append(_is_culprit(finding.subject, truth))
        elif told.is_new and not (
            is_later and finding.kind in one.also and _may_follow(finding.subject, truth, hit)
        ):
            found.false.append(_text(told))
    if one.has_rank:
        found.right_rank = bool(blamed) and all(blamed)
    return found


def _is_about(subject: Subject, truth: FaultTruth, hit: frozenset[str]) -> bool:
    if truth.job_uid and subject.workload is not None:
        return subject.workload.uid == truth.job_uid
    if truth.gpu_uuid and subject.gpu is not None:
        return subject.gpu == truth.gpu_uuid
    if truth.node and subject.node is not None:
        return subject.node == truth.node
    # What a node does to a job: the job is another subject, and the node the same.
    return subject.workload is not None and subject.workload.uid in hit


def _may_follow(subject: Subject, truth: FaultTruth, hit: frozenset[str]) -> bool:
    if subject.workload is not None:
        return subject.workload.uid in hit
    return _is_about(subject, truth, hit)


def _blames(subject: Subject) -> bool:
    return subject.rank is not None or subject.gpu is not None


def _is_culprit(subject: Subject, truth: FaultTruth) -> bool:
    if subject.gpu is not None and truth.gpu_uuid:
        return subject.gpu == truth.gpu_uuid
    return subject.rank is not None and subject.rank == truth.rank


def _text(told: Said) -> str:
    finding = told.finding
    at_s = (told.at_ms - START_MS) / 1000
    return f"{finding.kind.value} ({finding.cause or '-'}) at {at_s:.0f} s: {finding.text}"


def _score_classic(
    rules: Sequence[Fired], one: FaultClass | None, truth: FaultTruth | None, watched: WatchedWorld
) -> Score:
    score = Score()
    if one is None or truth is None:
        score.false = [f"{name} fired" for name in dict.fromkeys(rule.rule for rule in rules)]
        return score
    named = [rule for rule in rules if rule.at_ms >= truth.from_ms and _fits(rule, truth, watched)]
    score.false = list(dict.fromkeys(rule.rule for rule in rules if rule not in named))
    if one.has_rank:
        score.right_rank = False
    if named:
        first = [rule for rule in named if rule.at_ms == named[0].at_ms]
        score.named_s = (first[0].at_ms - truth.from_ms) / 1000
        score.right_cause = any(rule.rule in one.classic for rule in first)
        if one.has_rank:
            blamed = {rule.labels.get("UUID") or rule.labels.get("rank") for rule in first} - {None}
            score.right_rank = blamed in ({truth.gpu_uuid}, {str(truth.rank)})
    return score


def _fits(rule: Fired, truth: FaultTruth, watched: WatchedWorld) -> bool:
    labels = rule.labels
    if truth.gpu_uuid and labels.get("UUID") == truth.gpu_uuid:
        return True
    if truth.node and labels.get("Hostname") == truth.node:
        return True
    pod = labels.get("pod", "")
    return bool(pod) and pod in watched.pods_of(truth.job_uid, truth.node)
