"""What /api/why answers, as types: the OpenAPI schema is made from them. `diagnose/told.py` fills them in."""

from __future__ import annotations

import msgspec


class MissingAnswer(msgspec.Struct, frozen=True):
    """What nobody told, and the change that would bring it."""

    what: str
    remedy: str


class FactAnswer(msgspec.Struct, frozen=True):
    """One thing that was seen, and where; null where it has no time."""

    text: str
    source: str
    t_ms: int | None


class StepAsked(msgspec.Struct, frozen=True):
    """One step of the way to a verdict."""

    tree: str
    question: str
    text: str
    answer: str
    facts: list[FactAnswer]
    confidence: float


class WhereAnswer(msgspec.Struct, frozen=True):
    """Whom a verdict blames. Null is what it does not concern, or nobody knows."""

    workload: str | None
    namespace: str | None
    pod: str | None
    node: str | None
    gpu: str | None
    gpu_number: str | None
    rank: int | None
    run: str | None


class VerdictAnswer(msgspec.Struct, frozen=True):
    """A cause. Where `can_tell` is false, it is a guess, and `missing` has what would tell."""

    cause: str
    layer: str
    text: str
    confidence: float
    can_tell: bool
    is_sure: bool
    fix: list[str]
    where: WhereAnswer
    since_ms: int | None
    way: list[StepAsked]
    missing: list[MissingAnswer]


class CaseSubjectAnswer(msgspec.Struct, frozen=True):
    kind: str
    cluster: str
    namespace: str
    name: str


class VerdictsAnswer(msgspec.Struct, frozen=True):
    """The surest verdict first; `missing` is what could not be gathered for any."""

    subject: CaseSubjectAnswer
    from_ms: int
    to_ms: int
    verdicts: list[VerdictAnswer]
    missing: list[MissingAnswer]
