"""What a detector saw: what is wrong, with whom, since when, how sure that is, and what to do now."""

from __future__ import annotations

# What is in annotations here is read when a finding is read back from disk.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from trilens.model.run import RunId  # noqa: TC001
from trilens.model.workload import Doubt, GpuUuid, PodKey, WorkloadKey  # noqa: TC001


class Severity(StrEnum):
    CRITICAL = "critical"  # somebody is woken
    WARNING = "warning"  # today
    INFO = "info"  # when somebody looks


class FindingKind(StrEnum):
    """One for each detector; its value is the label `finding` of metrics and alerts."""

    STALL = "stall"
    HANG = "hang"
    STRAGGLER = "straggler"
    THROTTLING = "throttling"
    CPU_FALLBACK = "cpu-fallback"
    PLATEAU = "plateau"
    DIVERGENCE = "divergence"
    SUSPECT_TELEMETRY = "suspect-telemetry"
    GPU_FAULT = "gpu-fault"
    CRASH = "crash"


class Subject(NamedTuple):
    """Whom it is about. What it does not concern is None."""

    workload: WorkloadKey | None = None
    team: str | None = None
    run: RunId | None = None
    rank: int | None = None  # the culprit, where one is known
    pod: PodKey | None = None
    cluster: str | None = None  # of the node; a workload has its own
    node: str | None = None
    gpu: GpuUuid | None = None


class Evidence(NamedTuple):
    """One fact that it rests on, for people; `query` shows the same as a graph."""

    text: str
    query: str | None = None


class FindingKey(NamedTuple):
    """What makes two findings the same one, seen again."""

    code: str
    subject: Subject
    cause: str


@dataclass(frozen=True, slots=True)
class Finding:
    """As it is seen at one moment. Seen again, only text, evidence, confidence and figures may differ."""

    code: str  # of the detector: D001, ...
    kind: FindingKind
    subject: Subject
    severity: Severity
    cause: str  # short and stable, for machines: "gil-held"; "" where it is not known
    onset_ms: int  # since when it is so, which is before it could be seen
    text: str  # a sentence: what is broken, where, since when
    action: str  # what to do now
    confidence: float = 1.0  # 0 to 1
    evidence: tuple[Evidence, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)  # for machines: {"slowdown": 1.31}

    @property
    def key(self) -> FindingKey:
        return FindingKey(self.code, self.subject, self.cause)


@dataclass(frozen=True, slots=True)
class FindingInterval:
    """A finding over its life. (finding.key, detected_ms) names it; told again, it replaces what was told."""

    finding: Finding  # as it was seen last
    detected_ms: int  # when it was first seen
    seen_ms: int  # when last
    ended_ms: int | None = None
