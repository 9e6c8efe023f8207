"""Findings of the detectors as evidence: what they saw, whom they blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer
from trilens.model.finding import FindingKind, Subject
from trilens.model.verdict import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.diagnose.case import Case
    from trilens.model.finding import Finding, FindingInterval
    from trilens.model.run import RankProcess

_FEW: Final = 5  # facts of one finding


def facts_of(interval: FindingInterval) -> tuple[Fact, ...]:
    finding = interval.finding
    source = f"finding {finding.code} {finding.kind}"
    over = "" if interval.ended_ms is None else " (it is over)"
    first = Fact(finding.text + over, source, finding.onset_ms)
    doubts = (Fact(f"doubt: {one.text}", source) for one in finding.doubts)
    told = (Fact(one.text, f"evidence of {finding.code}") for one in finding.evidence)
    return (first, *list(dict.fromkeys((*told, *doubts)))[:_FEW])


def answer_of(interval: FindingInterval, value: str, names: Mapping[str, str]) -> Answer:
    """What a detector saw is the answer, as sure as it was."""
    finding = interval.finding
    facts, since_ms = facts_of(interval), finding.onset_ms
    return Answer((value,), facts, finding.confidence, names, subject=finding.subject, since_ms=since_ms)


def whom(finding: Finding) -> str:
    """As people would say it."""
    subject = finding.subject
    node = f" on {subject.node}" if subject.node else ""
    if subject.rank is not None:
        return f"rank {subject.rank}{node}"
    if subject.gpu_number is not None:
        return f"GPU {subject.gpu_number}{node}"
    if subject.pod is not None:
        return f"pod {subject.pod.name}{node}"
    if subject.node:
        return f"node {subject.node}"
    return "the job"


def frozen_ranks(case: Case) -> frozenset[int]:
    """Those that are there though nobody hears them: no Python runs in them."""
    by_finding = {
        one.finding.subject.rank
        for one in case.findings(FindingKind.STALL, FindingKind.HANG)
        if one.finding.cause == "gil-held"
    }
    return frozenset({rank for rank in by_finding if rank is not None})


def rank_subject(process: RankProcess) -> Subject:
    return Subject(run=process.run, rank=process.rank, node=process.node or None)


def rank_name(process: RankProcess) -> str:
    return f"rank {process.rank}" + (f" on {process.node}" if process.node else "")


def ranks_name(ranks: Iterable[int]) -> str:
    """ranks 0, 2-5"""
    numbers = sorted(set(ranks))
    spans: list[list[int]] = []
    for rank in numbers:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    told = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {told}"
