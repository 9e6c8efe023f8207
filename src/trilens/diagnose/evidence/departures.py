"""Who of a job has gone, and who was the first: the others fall for want of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.found import answer_of, rank_name, rank_subject, whom
from trilens.diagnose.scheduling.waiting import node_of, pod_key
from trilens.diagnose.trouble import (
    ended_containers,
    is_followed,
    is_lost,
    node_gone,
    node_silent,
    runs_on,
)
from trilens.model.finding import FindingKind, Subject
from trilens.model.life import Phase
from trilens.model.rank_errors import is_out_of_memory, only_follows
from trilens.model.run import Ending
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import conditions, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from trilens.diagnose.case import Case
    from trilens.model.finding import Finding, FindingInterval
    from trilens.model.run import RankProcess

_SAME_FALL_MS: Final = 60_000  # what is further apart are two falls
_LATE_MS: Final = 3_000  # clocks, and the time until an exception has left a program
_ERROR_LENGTH: Final = 300
_FEW: Final = 6
_OWN: Final = 0.9  # somebody who gives a reason
_VAGUE: Final = 0.95  # that it is gone; why, the ends doubt
_KILLED: Final = (137, 143, -9, -15)
_VAGUELY: Final = ("killed", "exit-code", "silent")  # that somebody is gone, and no word of why
# CUDA's own words when a kernel went wrong, or the GPU did.
_GPU_ERRORS: Final = (
    "cuda error",
    "cudaerror",
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "uncorrectable ecc",
    "misaligned address",
    "cublas_status",
    "cudnn_status_execution_failed",
    "cuda driver error",
)
_DISRUPTIONS: Final = {
    "PreemptionByScheduler": "preempted",
    "PreemptionByKubeScheduler": "preempted",
    "DeletionByTaintManager": "evicted",
    "EvictionByEvictionAPI": "evicted",
    "TerminationByKubelet": "evicted",
}
_INTERRUPTIONS: Final = {
    Phase.PREEMPTED: "preempted",
    Phase.EVICTED: "evicted",
    Phase.SPOT_RECLAIMED: "preempted",
}


class _Gone(NamedTuple):
    t_ms: int
    how: str
    said: str
    who: str
    fact: Fact
    subject: Subject
    slack_ms: int = 0  # it may have gone so much later than `t_ms`

    @property
    def tells(self) -> bool:
        """A reason of its own."""
        return self.how not in (*_VAGUELY, "follows")


@evidence(
    "out-of-memory",
    "oom-killed",
    "gpu-error",
    "exception",
    "killed",
    "exit-code",
    "silent",
    "node-gone",
    "evicted",
    "preempted",
    "follows",
    "nobody",
)
def first_to_go(case: Case) -> Answer:
    """`follows`: all that have gone only say that another one has. `silent`: it is not heard any more, and
    its container runs on."""
    crash = case.findings(FindingKind.CRASH)
    # A job that runs again fell in the life before: that one tells why.
    lives = case.lives_at(crash[0].finding.onset_ms) if crash else case.lives
    gone = [*_ranks_gone(case, lives), *_pods_gone(case)]
    if (taken := _taken_away(case, gone)) is not None:
        return taken
    if crash:
        return _by_finding(case, crash[0], gone)
    for stall in case.findings(FindingKind.STALL):
        if stall.finding.cause in ("node-gone", "process-dead") and not any(one.tells for one in gone):
            how = "node-gone" if stall.finding.cause == "node-gone" else "killed"
            return _found(stall, how, stall.finding.text)
    if not gone:
        if not (case.lives or case.pods):
            name = case.file.subject.name
            return Answer.unknown(
                Missing(f"the processes of {name}", "have it call trilens.init(), or let pods be read")
            )
        there = Fact(f"all are there: ranks {len(case.lives)}, pods {len(case.pods)}", "records of the run")
        return Answer(("nobody",), (there,))
    return _by_words(_first(gone), gone)


def _by_words(root: _Gone, gone: Sequence[_Gone]) -> Answer:
    facts = (root.fact, *(one.fact for one in sorted(gone, key=lambda one: one.t_ms) if one is not root))
    return Answer(
        (root.how,),
        tuple(dict.fromkeys(facts))[:_FEW],
        1.0 if root.how == "follows" else _OWN if root.tells else _VAGUE,
        {"gone": root.who, "error": root.said, "gone_node": root.subject.node or "its node"},
        subject=root.subject,
        since_ms=root.t_ms,
    )


def _first(gone: Sequence[_Gone]) -> _Gone:
    """The first with a reason of its own, unless one that was killed had clearly gone before it."""
    own = min((one for one in gone if one.tells), key=lambda one: one.t_ms, default=None)
    vague = min((one for one in gone if one.how in _VAGUELY), key=lambda one: one.t_ms, default=None)
    if own is None:
        return vague or min(gone, key=lambda one: one.t_ms)
    if vague is not None and vague.t_ms + vague.slack_ms + _LATE_MS < own.t_ms:
        return vague
    return own


def _by_finding(case: Case, crash: FindingInterval, gone: Sequence[_Gone]) -> Answer:
    """The detector saw them go, one after the other; what they said is in the records, and in their pods'
    status."""
    finding = crash.finding
    telling = [one for one in gone if one.tells and abs(one.t_ms - finding.onset_ms) <= _SAME_FALL_MS]
    if finding.cause in _VAGUELY and telling:
        return _by_words(_first(telling), gone)
    own = [one for one in telling if _is_same(one.subject, finding.subject)]
    error = own[0].said if own else _without_name(finding)
    how = _how(error) if finding.cause in ("exception", "out-of-memory") else finding.cause
    answer = _found(crash, how, error)
    return answer if how != "oom-killed" else _of_container(case, answer)


def _is_same(one: Subject, other: Subject) -> bool:
    return one.rank == other.rank if one.rank is not None else one.pod == other.pod is not None


def _without_name(finding: Finding) -> str:
    told = finding.evidence[0].text if finding.evidence else finding.text
    return told.removeprefix(f"{whom(finding)}: ")


def _of_container(case: Case, answer: Answer) -> Answer:
    """A container is killed with all ranks that are in it: none of them is to blame before the others."""
    pod = answer.subject.pod
    if pod is None or len({one.rank for one in case.file.ranks if one.pod_uid == pod.uid}) == 1:
        return answer
    node = answer.subject.node
    return replace(
        answer,
        names={**answer.names, "gone": f"pod {pod.name}" + (f" on {node}" if node else "")},
        subject=answer.subject._replace(rank=None, gpu=None, gpu_number=None),
    )


def _found(interval: FindingInterval, how: str, error: str) -> Answer:
    finding = interval.finding
    names = {"gone": whom(finding), "error": error, "gone_node": finding.subject.node or "its node"}
    return answer_of(interval, how, names)


def _taken_away(case: Case, gone: Sequence[_Gone]) -> Answer | None:
    """The whole job, by its queue, its scheduler or a drain: its processes end then, and that is no fault of
    theirs. It may be on its way up again since."""
    own = [one for one in case.file.phases if case.workload is None or one.workload == case.workload.key]
    ran_ms = max((one.from_ms for one in own if one.phase is Phase.RUNNING), default=0)
    taken = [one for one in own if one.from_ms > ran_ms and one.phase in _INTERRUPTIONS]
    first = min(taken, key=lambda one: one.from_ms, default=None)
    if first is None or any(one.tells and one.t_ms < first.from_ms for one in gone):
        return None
    fact = Fact(f"{first.phase}: {first.reason or 'no reason given'}", "phase of the workload", first.from_ms)
    names = {"gone": first.workload.name, "error": first.reason or first.phase, "gone_node": "its nodes"}
    return Answer((_INTERRUPTIONS[first.phase],), (fact,), 0.95, names, since_ms=first.from_ms)


def _how(error: str) -> str:
    if not error:  # that it ended is all that is known
        return "exit-code"
    lower = error.lower()
    if is_out_of_memory(error):
        return "out-of-memory"
    if any(word in lower for word in _GPU_ERRORS):
        return "gpu-error"
    return "follows" if only_follows(error) else "exception"


def _ranks_gone(case: Case, lives: Sequence[RankProcess]) -> Iterator[_Gone]:
    for process in lives:
        if process.ending is Ending.FAILED:
            error = (process.error or "").strip()
            how, said = _how(error), (error or "it said no reason").splitlines()[-1][:_ERROR_LENGTH]
            yield _rank_gone(process, process.ended_ms or process.heard_ms, how, said)
        elif is_lost(case, process):
            slack_ms = int(2_000 * process.heartbeat_s)
            said = "it is not heard any more and said nothing"
            how = "silent" if runs_on(case, process) else "killed"
            yield _rank_gone(process, process.heard_ms, how, said)._replace(slack_ms=slack_ms)


def _rank_gone(process: RankProcess, t_ms: int, how: str, said: str) -> _Gone:
    who = rank_name(process)
    fact = Fact(f"{who}: {said}", "its heartbeats" if how in _VAGUELY else "the rank itself", t_ms)
    return _Gone(t_ms, how, said, who, fact, rank_subject(process))


def _pods_gone(case: Case) -> Iterator[_Gone]:
    for pod in case.pods:
        if is_followed(case, pod):
            continue
        status = section(pod.body, "status")
        subject = Subject(pod=pod_key(pod), node=node_of(pod) or None)
        who = f"pod {pod.name}" + (f" on {subject.node}" if subject.node else "")
        source = f"status of Pod {pod.name}"
        for one in conditions(pod):
            if one.type == "DisruptionTarget" and one.holds and (how := _DISRUPTIONS.get(one.reason)):
                said = one.message or one.reason
                t_ms = one.since_ms or case.now_ms
                yield _Gone(t_ms, how, said, who, Fact(f"{one.reason}: {said}", source, t_ms), subject)
        if (fact := node_gone(case, pod) or node_silent(case, node_of(pod))) is not None:
            yield _Gone(fact.t_ms or case.now_ms, "node-gone", fact.text, who, fact, subject)
        if text(status, "reason") == "Evicted":
            said = text(status, "message") or "its node sent it away"
            ends = [time_ms(ended.get("finishedAt")) for _, ended in ended_containers(pod)]
            t_ms = min((one for one in ends if one is not None), default=case.now_ms)
            yield _Gone(t_ms, "evicted", said, who, Fact(said, source, t_ms), subject)
        for container, ended in ended_containers(pod):
            t_ms = time_ms(ended.get("finishedAt")) or case.now_ms
            if t_ms < case.file.from_ms:
                continue
            how, said = _how_it_ended(ended)
            fact = Fact(f"container {container}: {said}", source, t_ms)
            yield _Gone(t_ms, how, said, who, fact, subject)


def _how_it_ended(ended: Mapping[str, Any]) -> tuple[str, str]:
    reason, code = text(ended, "reason"), ended.get("exitCode")
    message = text(ended, "message").strip()
    if reason == "OOMKilled":
        return "oom-killed", f"OOMKilled, exit code {code}"
    if message and (how := _how(message)) != "follows":
        return how, message.splitlines()[-1][:_ERROR_LENGTH]
    said = f"{reason or 'ended'}, exit code {code}"
    return ("killed" if code in _KILLED else "exit-code"), said
