"""Findings as metrics, so that rules of any Prometheus can alert on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.subject_labels import subject_labels
from trilens.resolve.phase_metrics import PhaseSample
from trilens.serve.workload_metrics import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.finding import FindingInterval

FINDING: Final = "trilens_finding"
ONSET: Final = "trilens_finding_onset_timestamp_seconds"
CONFIDENCE: Final = "trilens_finding_confidence_ratio"
INFO: Final = "trilens_finding_info"
FAMILIES: Final = (
    Family(FINDING, "gauge", "1 while a detector finds this; labels are what was known when it opened."),
    Family(ONSET, "gauge", "Since when it is so, which is before it could be seen."),
    Family(CONFIDENCE, "gauge", "How sure that is, from 0 to 1."),
    Family(INFO, "gauge", "1; labels are what is known of the finding with this id by now."),
)


def finding_labels(interval: FindingInterval) -> dict[str, str]:
    """The same as long as it lasts: an alert on them would be another one if they changed."""
    key = interval.key
    return {
        "id": key.id,
        "code": key.code,
        "finding": interval.finding.kind.value,
        "cause": key.cause,
        "severity": key.severity.value,
        **subject_labels(key.subject),
    }


def info_labels(interval: FindingInterval) -> dict[str, str]:
    finding = interval.finding
    named = {"id": interval.key.id, "code": finding.code, "cause": finding.cause}
    return {**named, **subject_labels(finding.subject)}


def finding_samples(findings: Iterable[FindingInterval]) -> Iterator[PhaseSample]:
    """Each only once: two that were called the same when they opened are one series."""
    seen: set[str] = set()
    for interval in findings:
        labels = finding_labels(interval)
        if labels["id"] in seen:
            continue
        seen.add(labels["id"])
        yield PhaseSample(FINDING, labels, 1.0)
        yield PhaseSample(ONSET, labels, interval.finding.onset_ms / 1000)
        yield PhaseSample(CONFIDENCE, labels, interval.finding.confidence)
        yield PhaseSample(INFO, info_labels(interval), 1.0)
