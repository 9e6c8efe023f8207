"""What /api/incidents answers, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.model.incident import MomentKind
from trilens.model.ledger import as_amount
from trilens.serve.subject_answer import SubjectAnswer, subject_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.held_back import HeldBack
    from trilens.model.incident import Incident, Symptom


class SymptomAnswer(msgspec.Struct, frozen=True):
    """An alert, a finding or an event; `name` is the alert's, the detector's code, or the event's kind."""

    kind: str
    name: str
    severity: str
    text: str
    action: str
    onset_ms: int
    ended_ms: int | None
    subject: SubjectAnswer
    labels: dict[str, str]


class MomentAnswer(msgspec.Struct, frozen=True):
    t_ms: int
    kind: str
    text: str


class HeldBackAnswer(msgspec.Struct, frozen=True):
    """Why somebody is not told: `silence` (its id is `name`), `inhibited`, `quiet` (of the receiver `name`),
    `no-route` or `no-receiver`."""

    why: str
    name: str | None
    text: str
    until_ms: int | None


class IncidentAnswer(msgspec.Struct, frozen=True):
    """The first of `symptoms` is the root; `action` is what to do now about it. `lost` is an amount as text,
    null where no price is known; `more_symptoms` last and are not listed. `told` are the receivers that took
    a message of it, the first that did first."""

    id: str
    state: str
    severity: str
    title: str
    action: str
    subject: SubjectAnswer
    workloads: list[str]
    onset_ms: int
    detected_ms: int
    notified_ms: int | None
    told: list[str]
    held_back: list[HeldBackAnswer]
    acknowledged_ms: int | None
    acknowledged_by: str | None
    resolved_ms: int | None
    lost: str | None
    currency: str | None
    symptoms: list[SymptomAnswer]
    more_symptoms: int
    timeline: list[MomentAnswer]
    merged_into: str | None


def incident_answer(incident: Incident, held_back: Sequence[HeldBack]) -> IncidentAnswer:
    told = [one.text for one in incident.timeline if one.kind is MomentKind.NOTIFIED]
    return IncidentAnswer(
        incident.id,
        incident.state.value,
        incident.severity.value,
        incident.title,
        next((one.action for one in incident.symptoms if one.action), ""),
        subject_answer(incident.subject),
        list(incident.workloads),
        incident.onset_ms,
        incident.detected_ms,
        incident.notified_ms,
        list(dict.fromkeys(told)),
        [HeldBackAnswer(one.why.value, one.name or None, one.text, one.until_ms) for one in held_back],
        incident.acknowledged_ms,
        incident.acknowledged_by or None,
        incident.resolved_ms,
        f"{as_amount(incident.lost_quanta):f}" if incident.lost_quanta is not None else None,
        incident.currency,
        [_symptom(one) for one in incident.symptoms],
        incident.more_symptoms,
        [MomentAnswer(one.t_ms, one.kind.value, one.text) for one in incident.timeline],
        incident.merged_into,
    )


def _symptom(symptom: Symptom) -> SymptomAnswer:
    return SymptomAnswer(
        symptom.kind.value,
        symptom.name,
        symptom.severity.value,
        symptom.text,
        symptom.action,
        symptom.onset_ms,
        symptom.ended_ms,
        subject_answer(symptom.subject),
        dict(symptom.labels),
    )
