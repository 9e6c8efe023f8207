"""What /api/findings answers, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.event_answers import WorkloadName

if TYPE_CHECKING:
    from trilens.model.finding import FindingInterval


class EvidenceAnswer(msgspec.Struct, frozen=True):
    """A fact that a finding rests on; `query` shows the same as a graph."""

    text: str
    query: str | None


class FindingAnswer(msgspec.Struct, frozen=True):
    """What a detector found, over its life. Null is what it does not concern, or nobody knows."""

    code: str
    kind: str
    severity: str
    cause: str
    text: str
    action: str
    confidence: float
    onset_ms: int
    detected_ms: int
    seen_ms: int
    ended_ms: int | None
    workload: WorkloadName | None
    team: str | None
    run: str | None
    rank: int | None
    cluster: str | None
    namespace: str | None
    pod: str | None
    node: str | None
    gpu: str | None
    evidence: list[EvidenceAnswer]
    doubts: list[DoubtAnswer]
    figures: dict[str, float]


def finding_answer(interval: FindingInterval) -> FindingAnswer:
    finding = interval.finding
    subject = finding.subject
    workload, pod = subject.workload, subject.pod
    return FindingAnswer(
        finding.code,
        finding.kind.value,
        finding.severity.value,
        finding.cause,
        finding.text,
        finding.action,
        round(finding.confidence, 3),
        finding.onset_ms,
        interval.detected_ms,
        interval.seen_ms,
        interval.ended_ms,
        WorkloadName(*workload) if workload is not None else None,
        subject.team,
        subject.run,
        subject.rank,
        workload.cluster if workload is not None else subject.cluster,
        workload.namespace if workload is not None else pod.namespace if pod is not None else None,
        pod.name if pod is not None else None,
        subject.node,
        subject.gpu,
        [EvidenceAnswer(one.text, one.query) for one in finding.evidence],
        [DoubtAnswer(*doubt) for doubt in finding.doubts],
        dict(finding.figures),
    )
