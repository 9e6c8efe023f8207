"""Findings and incidents as rows of their tables, and back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.finding import Finding, FindingInterval, FindingKey, Subject
from trilens.model.incident import Incident
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.store.workload_rows import Row

_FINDING: Final = msgspec.json.Decoder(Finding)
_SUBJECT: Final = msgspec.json.Decoder(Subject)
_INCIDENT: Final = msgspec.json.Decoder(Incident)

FINDINGS: Final = Table(
    "findings",
    ("detector", "cause", "subject", "detected_ms"),
    ("kind", "run", "onset_ms", "seen_ms", "to_ms", "body"),
)
INCIDENTS: Final = Table("incidents", ("id",), ("onset_ms", "to_ms", "body"))

FINDING_TABLES: Final = (FINDINGS, INCIDENTS)


def finding_row(interval: FindingInterval) -> Row:
    finding, key = interval.finding, interval.key
    return {
        "detector": key.code,
        "cause": key.cause,
        "subject": msgspec.json.encode(key.subject).decode(),
        "detected_ms": interval.detected_ms,
        "kind": finding.kind.value,
        "run": finding.subject.run or "",
        "onset_ms": finding.onset_ms,
        "seen_ms": interval.seen_ms,
        "to_ms": interval.ended_ms,
        "body": msgspec.json.encode(replace(finding, figures=_finite(finding.figures))).decode(),
    }


def finding_of(row: Row) -> FindingInterval:
    finding = _FINDING.decode(row["body"])
    key = FindingKey(finding.code, _SUBJECT.decode(row["subject"]), row["cause"], finding.severity)
    return FindingInterval(
        finding,
        row["detected_ms"],
        row["seen_ms"],
        row["to_ms"],
        key if key != finding.key else None,
    )


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    """JSON has no other numbers."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def incident_row(incident: Incident) -> Row:
    return {
        "id": incident.id,
        "onset_ms": incident.onset_ms,
        "to_ms": incident.resolved_ms,
        "body": msgspec.json.encode(incident).decode(),
    }


def incident_of(row: Row) -> Incident:
    return _INCIDENT.decode(row["body"])
