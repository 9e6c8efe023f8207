"""Whether a GPU of the case, or a link of it, has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.case_file import LogKind, SubjectKind
from trilens.diagnose.found import facts_of, whom
from trilens.model.event import EventKind
from trilens.model.finding import FindingKind, Subject
from trilens.model.verdict import Fact, Missing
from trilens.model.xid import XIDS, Asks, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval

_FEW: Final = 5
_RECENT_MS: Final = 120_000  # a GPU that was read so lately is on its bus
_BEFORE_MS: Final = 15 * 60_000
_AFTER_MS: Final = 120_000  # the driver's timeouts
_TOLD_MS: Final = 20_000  # kernels are asked every 15 s: before that, a fault may not be known yet
_UNCLEAR: Final = "unclear"  # a code of which nobody says what it asks for: told, and not followed
_KERNEL: Final = (EventKind.XID, EventKind.SXID, EventKind.NVLINK)
_WORN: Final = ("row-remap-pending", "repeat-offender")
_ORDER: Final = ("dead", "link", "contained", "application", "worn")  # what explains most first


class _Fault(NamedTuple):
    how: str
    t_ms: int
    what: str
    where: str
    fact: Fact
    subject: Subject
    confidence: float
    code: str = ""


@evidence(*_ORDER, "no")
def gpu_fault(case: Case) -> Answer:
    """`dead`: it must be reset or its node go; `contained`: its memory cost a program its data, and goes on;
    `application`: the program's fault, the GPU is fine."""
    met = [*_by_events(case), *_by_findings(case)]
    faults = [one for one in met if one.how != _UNCLEAR]
    if faults:
        # Of the gravest kind the first that has a name: a GPU that is gone has often said why.
        root = min(faults, key=lambda one: (_ORDER.index(one.how), not one.code, one.t_ms))
        facts = tuple(dict.fromkeys(one.fact for one in sorted(faults, key=lambda one: one.t_ms)))
        names = {"fault": root.what, "fault_gpu": root.where, "fault_node": root.subject.node or "its node"}
        names["catalogue"] = f" (trilens xid {root.code} says more)" if root.code else ""
        return Answer(
            (root.how,), facts[:_FEW], root.confidence, names, subject=root.subject, since_ms=root.t_ms
        )
    onset_ms = _onset_ms(case)
    if onset_ms is not None and case.now_ms - onset_ms < _TOLD_MS:
        what = f"whether a GPU has failed: it went wrong {(case.now_ms - onset_ms) // 1000} s ago"
        return Answer.unknown(Missing(what, "ask again in half a minute: kernels are asked every 15 s"))
    told = {
        one.labels.get("UUID")
        for one in case.series("gpu-utilization")
        if one.t_ms and case.now_ms - one.t_ms[-1] <= _RECENT_MS
    }
    kernels = [one for one in case.file.logs if one.kind is LogKind.KERNEL]
    if met:
        return Answer(("no",), tuple(one.fact for one in met[:_FEW]), 0.8)
    if told or kernels:
        text = (
            f"{len(told)} GPUs were read within the last two minutes, and no kernel told of a fault of them"
        )
        return Answer(("no",), (Fact(text, "readings of GPUs, and what agents read in kernel logs"),))
    return Answer.unknown(
        Missing("faults of its GPUs", "run trilens agent on its nodes: it reads Xids from the kernel's log")
    )


def _by_events(case: Case) -> Iterator[_Fault]:
    """Of its own GPUs; what happened to others of a node is not its fault. Of a node, of any that it has or
    had: one that is gone is among them no more."""
    ours = {seat.uuid for seat in case.file.gpus}
    uids = {one.membership.pod.uid for one in case.file.members}
    seats = {seat.uuid: seat for seat in case.file.gpus}
    nodes = {seat.node for seat in case.file.gpus} | {one.node for one in case.file.members}
    from_ms, to_ms = _around(case)
    for event in case.file.events:
        if not from_ms <= event.t_ms <= to_ms:
            continue
        is_switch = event.kind in (EventKind.SXID, EventKind.NVLINK) and event.node in nodes
        is_there = case.file.subject.kind is SubjectKind.NODE and event.node == case.file.subject.name
        hits = is_there or event.uuid in ours or any(victim.uid in uids for victim in event.victims)
        how, confidence = _means(event)
        if not how or not (hits or (is_switch and event.uuid is None)):
            continue
        seat = seats.get(event.uuid) if event.uuid is not None else None
        number = str(event.gpu) if event.gpu is not None else seat.number if seat is not None else None
        rank = event.rank if event.rank is not None else seat.rank if seat is not None else None
        where = f"GPU {number} of {event.node}" if number is not None else event.node
        what = f"{event.kind} {event.code}" if event.code is not None else event.kind
        what += f" ({event.title})" if event.title else ""
        subject = Subject(
            rank=rank,
            node=event.node or None,
            gpu=event.uuid,
            gpu_number=number,
            pod=seat.pod if seat else None,
        )
        fact = Fact(f"{where}: {what}", f"kernel log of {event.node}", event.t_ms)
        code = str(event.code) if event.code is not None else ""
        yield _Fault(how, event.t_ms, what, where, fact, subject, confidence, code)


def _around(case: Case) -> tuple[int, int]:
    """When a fault would explain what is wrong: not hours before it, and not when somebody resets a GPU. Of a
    node it is what is wrong, whatever became of the jobs that were there."""
    onset_ms = _onset_ms(case)
    if onset_ms is None or case.file.subject.kind is SubjectKind.NODE:
        return case.file.from_ms, case.now_ms
    return onset_ms - _BEFORE_MS, onset_ms + _AFTER_MS


def _onset_ms(case: Case) -> int | None:
    wrong = case.findings(FindingKind.HANG, FindingKind.STALL, FindingKind.CRASH)
    onsets = [one.finding.onset_ms for one in wrong]
    onsets += [one.ended_ms for one in case.lives if one.ended_ms is not None and one.ending != "finished"]
    return min(onsets, default=None)


def _means(event: EventRecord) -> tuple[str, float]:
    if event.kind in (EventKind.SXID, EventKind.NVLINK):
        return "link", 0.85
    if event.kind is not EventKind.XID or event.code is None:
        return "", 0.0
    return _of_code(event.code)


def _of_code(code: int) -> tuple[str, float]:
    meaning = XIDS.get(code)
    if meaning is None:
        return _UNCLEAR, 0.0
    if meaning.follows_any or meaning.asks is Asks.NOTHING:
        return "", 0.0
    if meaning.fault is Fault.LINK:
        return "link", 0.9
    match meaning.asks:
        case Asks.NODE_OUT | Asks.GPU_RESET:
            return "dead", 0.97
        case Asks.APPLICATION if meaning.fault is Fault.HARDWARE:
            return "contained", 0.95
        case Asks.APPLICATION:
            return "application", 0.9
    return _UNCLEAR, 0.0


def _by_findings(case: Case) -> Iterator[_Fault]:
    """What no event tells: a GPU that is gone without a word, one that wears out."""
    are_kernels_read = any(one.kind in _KERNEL for one in case.file.events)
    for interval in _found(case):
        finding = interval.finding
        if finding.cause == "lost" or finding.cause in _WORN:
            how = "dead" if finding.cause == "lost" else "worn"
            fact = facts_of(interval)[0]
            subject = finding.subject
            number = f"GPU {subject.gpu_number} of " if subject.gpu_number is not None else ""
            what = "it is gone from its node" if finding.cause == "lost" else finding.cause
            yield _Fault(
                how,
                finding.onset_ms,
                what,
                f"{number}{subject.node}" if subject.node else whom(finding),
                fact,
                finding.subject,
                finding.confidence,
            )
        elif finding.cause.startswith("xid-") and (not are_kernels_read or _is_older(interval, case)):
            yield from _by_gauge(finding.cause, facts_of(interval)[0], finding.subject, finding.confidence)


def _is_older(interval: FindingInterval, case: Case) -> bool:
    """It lasts, and the kernel told it before the time of the case."""
    return interval.ended_ms is None and interval.finding.onset_ms < case.file.from_ms


def _found(case: Case) -> Iterator[FindingInterval]:
    """Those that are open, and those that are over and would explain what is not. Of a node, its own: a job
    may have come to it because a GPU of another one failed."""
    opened = case.findings(FindingKind.GPU_FAULT)
    from_ms, to_ms = _around(case)
    near = [
        one
        for one in case.file.findings
        if one.finding.kind is FindingKind.GPU_FAULT and from_ms <= one.finding.onset_ms <= to_ms
    ]
    subject = case.file.subject
    for one in (*opened, *(one for one in near if one not in opened)):
        if subject.kind is not SubjectKind.NODE or one.finding.subject.node in (None, subject.name):
            yield one


def _by_gauge(cause: str, fact: Fact, subject: Subject, confidence: float) -> Iterator[_Fault]:
    """Where no agent reads the kernel's log, a gauge of DCGM tells the code; of a fault from before the case,
    its finding alone."""
    code = cause.removeprefix("xid-")
    how, sure = _of_code(int(code)) if code.isdigit() else ("", 0.0)
    if how:
        number = f"GPU {subject.gpu_number}" if subject.gpu_number else "a GPU"
        where = f"{number} of {subject.node or 'its node'}"
        yield _Fault(how, fact.t_ms or 0, f"xid {code}", where, fact, subject, confidence * sure, code)
