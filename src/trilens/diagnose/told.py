"""Verdicts as JSON has them, the same from a server and from a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case_file import CaseFile
    from trilens.model.finding import Subject
    from trilens.model.verdict import Asked, Verdict


def told(case: CaseFile, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    subject = case.subject
    return {
        "subject": {
            "kind": subject.kind.value,
            "cluster": subject.cluster,
            "namespace": subject.namespace,
            "name": subject.name,
        },
        "from_ms": case.from_ms,
        "to_ms": case.to_ms,
        "verdicts": [verdict_told(one) for one in verdicts],
        "missing": [one._asdict() for one in case.missing],
    }


def verdict_told(verdict: Verdict) -> dict[str, Any]:
    return {
        "cause": verdict.cause,
        "layer": verdict.layer.value,
        "text": verdict.text,
        "confidence": verdict.confidence,
        "can_tell": verdict.confidence >= TELL_FROM,
        "is_sure": verdict.is_sure,
        "fix": list(verdict.fix),
        "where": _where(verdict.subject),
        "since_ms": verdict.since_ms,
        "way": [_step(one) for one in verdict.way],
        "missing": [one._asdict() for one in verdict.missing],
    }


def _step(asked: Asked) -> dict[str, Any]:
    return {**asked._asdict(), "facts": [fact._asdict() for fact in asked.facts]}


def _where(subject: Subject) -> dict[str, Any]:
    """What it does not concern, or nobody knows, is null."""
    workload, pod = subject.workload, subject.pod
    return {
        "workload": workload.name if workload is not None else None,
        "namespace": workload.namespace
        if workload is not None
        else pod.namespace
        if pod is not None
        else None,
        "pod": pod.name if pod is not None else None,
        "node": subject.node,
        "gpu": subject.gpu,
        "gpu_number": subject.gpu_number,
        "rank": subject.rank,
        "run": subject.run,
    }
