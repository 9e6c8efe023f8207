"""What receivers are told of an incident: all of it as it stands, so that the latest says everything."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.alert.delivery.matching import labels_of
from trilens.model.incident import IncidentState

if TYPE_CHECKING:
    from trilens.model.incident import Incident

_QUANTA: Final = 1_000_000_000  # of one unit of a currency


class Occasion(StrEnum):
    """Why it is told."""

    OPENED = "opened"
    CHANGED = "changed"  # more symptoms, another root, or graver
    REPEATED = "repeated"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    TEST = "test"


class SymptomNote(msgspec.Struct, frozen=True):
    key: str
    kind: str
    name: str
    severity: str
    text: str
    action: str
    labels: dict[str, str]
    onset_ms: int
    ended_ms: int | None = None


class Notice(msgspec.Struct, frozen=True):
    incident: str
    occasion: Occasion
    is_resolved: bool
    severity: str
    title: str
    labels: dict[str, str]  # of the root
    workloads: tuple[str, ...]
    symptoms: tuple[SymptomNote, ...]  # the root first
    onset_ms: int
    detected_ms: int
    resolved_ms: int | None = None
    acknowledged_by: str | None = None  # None: by nobody; "" by somebody without a name
    merged_into: str | None = None  # the incident that it goes on in
    more_symptoms: int = 0  # than are told here
    lost_quanta: int | None = None
    currency: str | None = None
    url: str = ""  # where it can be looked at

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged_by is not None

    @property
    def root(self) -> SymptomNote | None:
        return self.symptoms[0] if self.symptoms else None

    @property
    def root_key(self) -> str:
        return self.symptoms[0].key if self.symptoms else ""

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(symptom.key for symptom in self.symptoms)

    @property
    def action(self) -> str:
        return self.root.action if self.root is not None else ""

    @property
    def lost(self) -> str | None:
        """`1,234.50 USD`; None where nobody knows."""
        if self.lost_quanta is None or self.currency is None:
            return None
        return f"{self.lost_quanta / _QUANTA:,.2f} {self.currency}"


def notice_of(incident: Incident, occasion: Occasion, url: str) -> Notice:
    notes = tuple(
        SymptomNote(
            f"{symptom.kind}/{symptom.key}",
            str(symptom.kind),
            symptom.name,
            str(symptom.severity),
            symptom.text,
            symptom.action,
            labels_of(symptom, incident),
            symptom.onset_ms,
            symptom.ended_ms,
        )
        for symptom in incident.symptoms
    )
    return Notice(
        incident.id,
        occasion,
        incident.state is IncidentState.RESOLVED,
        str(incident.severity),
        incident.title,
        notes[0].labels if notes else {"severity": str(incident.severity)},
        incident.workloads,
        notes,
        incident.onset_ms,
        incident.detected_ms,
        incident.resolved_ms,
        incident.acknowledged_by if incident.acknowledged_ms is not None else None,
        incident.merged_into,
        incident.more_symptoms,
        incident.lost_quanta,
        incident.currency,
        url,
    )


def encode(notice: Notice) -> bytes:
    return msgspec.json.encode(notice)


def decode(body: bytes) -> Notice:
    return msgspec.json.decode(body, type=Notice)
