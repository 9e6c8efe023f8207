"""What a detector saw: what is wrong, with whom, since when, how sure that is, and what to do now."""

from __future__ import annotations

import hashlib

# What is in annotations here is read when a finding is read back from disk.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from trilens.model.run import RunId  # noqa: TC001
from trilens.model.workload import Doubt, GpuUuid, PodKey, WorkloadKey  # noqa: TC001


class Severity(StrEnum):
    """The gravest first."""

    CRITICAL = "critical"  # somebody is woken
    WARNING = "warning"  # today
    INFO = "info"  # when somebody looks

    @property
    def gravity(self) -> int:
        """The lower, the graver."""
        return _GRAVITY[self]


_GRAVITY: Final = {severity: place for place, severity in enumerate(Severity)}


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
    cluster: str | None = None  # of the node; a workload has its own: known_cluster
    node: str | None = None
    gpu: GpuUuid | None = None
    gpu_number: str | None = None  # of that GPU on its node, which is what people call it
    job_name: str | None = None  # where neither workload nor run is known: what its own metrics call it

    @property
    def known_cluster(self) -> str:
        """Of whatever of it tells, "" where nothing does: labels may leave out a workload's own."""
        of_workload = self.workload.cluster if self.workload is not None else ""
        return of_workload or self.cluster or (self.pod.cluster if self.pod is not None else "")


class Evidence(NamedTuple):
    """One fact that it rests on, for people; `query` shows the same as a graph."""

    text: str
    query: str | None = None


class FindingKey(NamedTuple):
    """What a finding is called by as long as it lasts: what was known when it opened. What is learnt later, a
    rank or a node, changes the finding and not its name; else somebody would be told of it twice."""

    code: str
    subject: Subject
    cause: str
    severity: Severity

    @property
    def id(self) -> str:
        """Short, and the same when it comes back."""
        return hashlib.blake2b(repr(self).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class Finding:
    """As it is seen at one moment."""

    code: str  # of the detector: D001, ...
    kind: FindingKind
    subject: Subject
    severity: Severity
    cause: str  # short and stable, for machines: "gil-held"; "" where it is not known
    onset_ms: int  # since when it is so, which is before it could be seen
    text: str  # a sentence: what is broken, and where; for how long stands beside it, and grows
    action: str  # what to do now
    confidence: float = 1.0  # 0 to 1
    evidence: tuple[Evidence, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)  # for machines: {"slowdown": 1.31}

    @property
    def key(self) -> FindingKey:
        """What it would be called if it opened now."""
        return FindingKey(self.code, self.subject, self.cause, self.severity)


@dataclass(frozen=True, slots=True)
class FindingInterval:
    """A finding over its life. (key, detected_ms) names it; told again, it replaces what was told."""

    finding: Finding  # as it was seen last
    detected_ms: int  # when it was first seen
    seen_ms: int  # when last
    ended_ms: int | None = None
    opened_as: FindingKey | None = None  # None where nothing was learnt since

    @property
    def key(self) -> FindingKey:
        return self.opened_as or self.finding.key
