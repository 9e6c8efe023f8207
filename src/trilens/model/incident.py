"""An incident: everything that one cause does to one workload or node, paged once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# What is in annotations here is read when an incident is read back from disk.
from trilens.model.finding import Severity, Subject  # noqa: TC001
from trilens.model.labels import Labels  # noqa: TC001


class IncidentState(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


class MomentKind(StrEnum):
    ONSET = "onset"  # since when it is so, as far as anybody can tell
    DETECTED = "detected"
    JOINED = "joined"  # a further alert, event or finding of the same cause
    ROOT = "root"  # another one is now taken for the cause
    NOTIFIED = "notified"
    ACKNOWLEDGED = "acknowledged"
    LEFT = "left"  # one of them is over
    RESOLVED = "resolved"


class Moment(NamedTuple):
    t_ms: int
    kind: MomentKind
    text: str


class SymptomKind(StrEnum):
    ALERT = "alert"
    FINDING = "finding"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that an incident is made of. `key` is unique among those of its kind while it lasts."""

    kind: SymptomKind
    key: str
    name: str  # alertname, detector code or event kind with code
    subject: Subject
    severity: Severity
    onset_ms: int
    text: str
    action: str
    labels: Labels = ()
    ended_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Kept on disk as a whole; told again, it replaces what was told."""

    id: str
    state: IncidentState
    severity: Severity  # the gravest of its symptoms
    title: str  # the root in one sentence
    subject: Subject  # of the root
    workloads: tuple[str, ...]  # all that suffer, as namespace/kind/name
    symptoms: tuple[Symptom, ...]  # the root first, then what follows from it
    timeline: tuple[Moment, ...]
    onset_ms: int
    detected_ms: int
    notified_ms: int | None = None
    resolved_ms: int | None = None
    lost_quanta: int | None = None  # of 1e-9 of `currency`; None where no price is known
    currency: str | None = None
    lost_until_ms: int = 0  # up to when that was counted
    acknowledged_ms: int | None = None
    acknowledged_by: str = ""
    more_symptoms: int = 0  # that last, and are not among `symptoms`: these are at most a few hundred
    merged_into: str | None = None  # the id of the one whose cause it turned out to have, too
