"""What /api/findings answers, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.subject_answer import SubjectAnswer, subject_answer

if TYPE_CHECKING:
    from trilens.model.finding import FindingInterval


class EvidenceAnswer(msgspec.Struct, frozen=True):
    """A fact that a finding rests on; `query` shows the same as a graph."""

    text: str
    query: str | None


class FindingAnswer(SubjectAnswer, frozen=True):
    """What a detector found, over its life, and whom it is about. Null is what it does not concern, or nobody
    knows. `id` is that of its metrics, and stays the same while more is learnt."""

    id: str
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
    evidence: list[EvidenceAnswer]
    doubts: list[DoubtAnswer]
    figures: dict[str, float]


def finding_answer(interval: FindingInterval) -> FindingAnswer:
    finding = interval.finding
    return FindingAnswer(
        **msgspec.structs.asdict(subject_answer(finding.subject)),
        id=interval.key.id,
        code=finding.code,
        kind=finding.kind.value,
        severity=finding.severity.value,
        cause=finding.cause,
        text=finding.text,
        action=finding.action,
        confidence=round(finding.confidence, 3),
        onset_ms=finding.onset_ms,
        detected_ms=interval.detected_ms,
        seen_ms=interval.seen_ms,
        ended_ms=interval.ended_ms,
        evidence=[EvidenceAnswer(one.text, one.query) for one in finding.evidence],
        doubts=[DoubtAnswer(*doubt) for doubt in finding.doubts],
        figures=dict(finding.figures),
    )
