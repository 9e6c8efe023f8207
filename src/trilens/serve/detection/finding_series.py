"""Findings as metrics, so that rules of any Prometheus can alert on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.phase_metrics import PhaseSample
from trilens.serve.workload_metrics import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.finding import Finding, FindingInterval

FINDING: Final = "trilens_finding"
ONSET: Final = "trilens_finding_onset_timestamp_seconds"
CONFIDENCE: Final = "trilens_finding_confidence_ratio"
FAMILIES: Final = (
    Family(FINDING, "gauge", "1 while a detector finds this."),
    Family(ONSET, "gauge", "Since when it is so, which is before it could be seen."),
    Family(CONFIDENCE, "gauge", "How sure that is, from 0 to 1."),
)


def finding_labels(finding: Finding) -> dict[str, str]:
    """All of them, empty where it does not concern one."""
    subject = finding.subject
    workload = subject.workload
    return {
        "code": finding.code,
        "finding": finding.kind.value,
        "cause": finding.cause,
        "severity": finding.severity.value,
        "cluster": (workload.cluster if workload is not None else subject.cluster) or "",
        "namespace": workload.namespace if workload is not None else "",
        "workload": workload.name if workload is not None else "",
        "kind": workload.kind if workload is not None else "",
        "team": subject.team or "",
        "run": subject.run or "",
        "rank": "" if subject.rank is None else str(subject.rank),
        "node": subject.node or "",
        "UUID": subject.gpu or "",
    }


def finding_samples(findings: Iterable[FindingInterval]) -> Iterator[PhaseSample]:
    """Each label set once: findings that differ in what no label tells are one series."""
    seen: set[tuple[str, ...]] = set()
    for interval in findings:
        labels = finding_labels(interval.finding)
        key = tuple(labels.values())
        if key in seen:
            continue
        seen.add(key)
        yield PhaseSample(FINDING, labels, 1.0)
        yield PhaseSample(ONSET, labels, interval.finding.onset_ms / 1000)
        yield PhaseSample(CONFIDENCE, labels, interval.finding.confidence)
