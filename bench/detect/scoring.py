"""One episode, lived through and scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.detect import classic
from bench.detect.watched import WatchedWorld
from trilens.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.detect.classic import Fired
    from bench.detect.episodes import Episode, FaultClass
    from trilens.model.finding import FindingInterval, Subject
    from trilens.simulate.truth import FaultTruth

START_MS: Final = 1_768_392_000_000
_CLASSIC_MS: Final = 1_000_000  # after the onset: so long the old rules may take
_SAID_FROM: Final = 0.5  # as rules/thresholds.yml has it: a finding less sure than that is no alert
_SHARPENS_MS: Final = 60_000  # for so long what was named may still be told more exactly


@dataclass(slots=True)
class Score:
    """Of one who looked on. `named_s` is None where it was not named, and where there was nothing to name."""

    named_s: float | None = None
    right_cause: bool = False
    right_rank: bool | None = None  # None where no single rank is to blame
    false: list[str] = field(default_factory=list)  # what was said for nothing

    @property
    def false_alarms(self) -> int:
        """Each kind counts once: what is said again is no other alarm."""
        return len({said.partition(" ")[0] for said in self.false})


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
    found = classic.fired(watched.samples, START_MS, world.now_ms) if rules else []
    return Outcome(
        episode.name,
        episode.severity,
        episode.key,
        one is not None,
        one is not None and one.is_fast,
        _score(watched.fast.opened, one, truth),
        _score(watched.slow.opened, one, truth) if watched.slow is not None else None,
        _score_classic(found, one, truth, watched),
        sum(watched.fast.watch.failures.values()),
    )


def _score(opened: Sequence[FindingInterval], one: FaultClass | None, truth: FaultTruth | None) -> Score:
    score = Score()
    opened = [interval for interval in opened if interval.finding.confidence >= _SAID_FROM]
    if one is None or truth is None:
        score.false = [_said(interval) for interval in opened]
        return score
    if one.has_rank:
        score.right_rank = False
    first: FindingInterval | None = None
    for interval in opened:
        finding = interval.finding
        is_later = interval.detected_ms >= truth.from_ms
        if is_later and finding.kind in one.named_by and _is_about(finding.subject, truth):
            if first is None:
                first = interval
                score.named_s = (interval.detected_ms - truth.from_ms) / 1000
            later_ms = interval.detected_ms - first.detected_ms
            causes = one.named_by[finding.kind]
            if later_ms <= _SHARPENS_MS:
                score.right_cause |= causes is None or finding.cause in causes
            if one.has_rank and not later_ms:
                score.right_rank |= _is_culprit(finding.subject, truth)
        elif not is_later or finding.kind not in one.also:
            score.false.append(_said(interval))
    return score


def _is_about(subject: Subject, truth: FaultTruth) -> bool:
    if truth.job_uid and subject.workload is not None:
        return subject.workload.uid == truth.job_uid
    if truth.gpu_uuid and subject.gpu is not None:
        return subject.gpu == truth.gpu_uuid
    if truth.node and subject.node is not None:
        return subject.node == truth.node
    # What a node does to a job: the job is another subject, and the node the same.
    return not truth.job_uid and subject.workload is not None


def _is_culprit(subject: Subject, truth: FaultTruth) -> bool:
    if subject.gpu is not None and truth.gpu_uuid:
        return subject.gpu == truth.gpu_uuid
    return subject.rank is not None and subject.rank == truth.rank


def _said(interval: FindingInterval) -> str:
    finding = interval.finding
    at_s = (interval.detected_ms - START_MS) / 1000
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
