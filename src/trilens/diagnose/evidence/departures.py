"""Who of a job has gone, and who was the first: the others fall for want of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.found import answer_of, frozen_ranks, rank_name, rank_subject, whom
from trilens.diagnose.scheduling.waiting import node_of, pod_key
from trilens.diagnose.trouble import ended_containers, is_followed, node_gone
from trilens.model.finding import FindingKind, Subject
from trilens.model.rank_errors import is_out_of_memory, only_follows
from trilens.model.run import Ending
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import conditions, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from trilens.diagnose.case import Case
    from trilens.model.finding import FindingInterval
    from trilens.model.run import RankProcess

_LATE_MS: Final = 3_000  # clocks, and the time until an exception has left a program
_ERROR_LENGTH: Final = 300
_FEW: Final = 6
_OWN: Final = 0.9  # somebody who gives a reason
_VAGUE: Final = 0.95  # that it is gone; why, the ends doubt
_KILLED: Final = (137, 143, -9, -15)
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
_INTERRUPTIONS: Final = {"preempted": "preempted", "evicted": "evicted", "spot-reclaimed": "preempted"}


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
        return self.how not in ("killed", "exit-code", "follows")


@evidence(
    "out-of-memory",
    "oom-killed",
    "gpu-error",
    "exception",
    "killed",
    "exit-code",
    "node-gone",
    "evicted",
    "preempted",
    "follows",
    "nobody",
)
def first_to_go(case: Case) -> Answer:
    """`follows`: all that have gone only say that another one has."""
    crash = case.findings(FindingKind.CRASH)
    gone = [*_ranks_gone(case), *_pods_gone(case)]
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
        there = Fact(f"{len(case.lives)} ranks and {len(case.pods)} pods are there", "records of the run")
        return Answer(("nobody",), (there,))
    root = _first(gone)
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
    vague = min(
        (one for one in gone if one.how in ("killed", "exit-code")), key=lambda one: one.t_ms, default=None
    )
    if own is None:
        return vague or min(gone, key=lambda one: one.t_ms)
    if vague is not None and vague.t_ms + vague.slack_ms + _LATE_MS < own.t_ms:
        return vague
    return own


def _by_finding(case: Case, crash: FindingInterval, gone: Sequence[_Gone]) -> Answer:
    """The detector saw them go, one after the other; what they said is in the records."""
    finding = crash.finding
    error = next((one.said for one in gone if one.subject.rank == finding.subject.rank is not None), "")
    error = error or (finding.evidence[0].text if finding.evidence else finding.text)
    how = _how(error) if finding.cause in ("exception", "out-of-memory") else finding.cause
    return _found(crash, how, error)


def _found(interval: FindingInterval, how: str, error: str) -> Answer:
    finding = interval.finding
    names = {"gone": whom(finding), "error": error, "gone_node": finding.subject.node or "its node"}
    return answer_of(interval, how, names)


def _taken_away(case: Case, gone: Sequence[_Gone]) -> Answer | None:
    """The whole job, by its queue or scheduler: its processes end then, and that is no fault of theirs."""
    own = [one for one in case.file.phases if case.workload is None or one.workload == case.workload.key]
    last = max(own, key=lambda one: one.from_ms, default=None)
    how = _INTERRUPTIONS.get(last.phase) if last is not None and last.to_ms is None else None
    if last is None or how is None or any(one.tells and one.t_ms < last.from_ms for one in gone):
        return None
    fact = Fact(f"{last.phase}: {last.reason or 'no reason given'}", "phase of the workload", last.from_ms)
    names = {"gone": case.file.subject.name, "error": last.reason or last.phase, "gone_node": "its nodes"}
    return Answer((how,), (fact,), 0.95, names, since_ms=last.from_ms)


def _how(error: str) -> str:
    if not error:  # that it ended is all that is known
        return "exit-code"
    lower = error.lower()
    if is_out_of_memory(error):
        return "out-of-memory"
    if any(word in lower for word in _GPU_ERRORS):
        return "gpu-error"
    return "follows" if only_follows(error) else "exception"


def _ranks_gone(case: Case) -> Iterator[_Gone]:
    frozen = frozen_ranks(case)
    for process in case.lives:
        if process.ending is Ending.FAILED:
            error = (process.error or "").strip()
            how, said = _how(error), (error or "it said no reason").splitlines()[-1][:_ERROR_LENGTH]
            yield _rank_gone(process, process.ended_ms or process.heard_ms, how, said)
        elif process.ending is Ending.LOST and process.rank not in frozen:
            slack_ms = int(2_000 * process.heartbeat_s)
            said = "it is not heard any more and said nothing"
            yield _rank_gone(process, process.heard_ms, "killed", said)._replace(slack_ms=slack_ms)


def _rank_gone(process: RankProcess, t_ms: int, how: str, said: str) -> _Gone:
    who = rank_name(process)
    fact = Fact(f"{who}: {said}", "the rank itself" if how != "killed" else "its heartbeats", t_ms)
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
        if (fact := node_gone(case, pod)) is not None:
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
