"""All that is known of one case: what a verdict rests on, and nothing beside it.

`serve/cases` gathers it from a live cluster, `bundle.py` writes it to one file and reads it back. Whoever
looks at it cannot tell which of the two it was: a colleague without access gets the same verdict.
"""

from __future__ import annotations

# What is in annotations here is read when a bundle is read.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from trilens.model.event import EventRecord  # noqa: TC001
from trilens.model.finding import FindingInterval  # noqa: TC001
from trilens.model.kubernetes import GroupKind, KubeObject  # noqa: TC001
from trilens.model.life import MembershipInterval, PhaseInterval  # noqa: TC001
from trilens.model.run import ArtifactRecord, NoteRecord, RankProcess, RunFacts, RunId  # noqa: TC001
from trilens.model.verdict import Missing  # noqa: TC001
from trilens.model.workload import GpuUuid, PodKey, Workload  # noqa: TC001

LEFT_OUT: Final = "<left out>"  # stands where a value was, in an environment whose names alone are kept
FORMAT: Final = 1  # goes up when what an older Trilens would make of a newer bundle is wrong


class SubjectKind(StrEnum):
    WORKLOAD = "workload"
    POD = "pod"
    NODE = "node"


class CaseSubject(NamedTuple):
    """Whom somebody asked about."""

    kind: SubjectKind
    cluster: str
    namespace: str  # "" of a node
    name: str

    def may_be_in(self, cluster: str | None) -> bool:
        """Whether what is in this cluster may concern it: equal names are in many. Either may be unknown."""
        return not cluster or not self.cluster or cluster == self.cluster


@dataclass(frozen=True, slots=True)
class GpuSeat:
    """A GPU of the case, and who has it."""

    uuid: GpuUuid
    node: str
    number: str
    model: str
    pod: PodKey | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class CaseSeries:
    """What one series said in the time of the case. Moments at which it said nothing are not among them."""

    labels: Mapping[str, str]
    t_ms: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The last steps of one life of a rank, oldest first; columns of one length, None where nobody said."""

    rank: int
    attempt: int
    step: tuple[int, ...]
    end_ms: tuple[int, ...]
    ms: tuple[float, ...]
    data_ms: tuple[float | None, ...]
    sync_ms: tuple[float | None, ...]
    loss: tuple[float | None, ...]
    grad_norm: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class SuspectBatch:
    """Data that a run saw in the step in which a value jumped or was not finite, or in those before."""

    run: RunId
    step: int  # in which it jumped
    rank: int  # on which it was worst
    value: str  # what jumped: loss
    batch: str  # what it was, for people: "dataset c4, samples 512 to 575"
    jumps: int = 1  # before so many it came, each time anew
    t_ms: int | None = None


class LogKind(StrEnum):
    CONTAINER = "container"  # what a container wrote
    KERNEL = "kernel"
    FILE = "file"  # that somebody handed in


@dataclass(frozen=True, slots=True)
class LogText:
    """The end of a log, oldest line first. Who wrote it, as far as whoever found it knew."""

    kind: LogKind
    name: str  # of the file, or of the container
    lines: tuple[str, ...]
    node: str = ""
    pod: PodKey | None = None
    rank: int | None = None
    is_cut: bool = False  # there was more before it


@dataclass(frozen=True, slots=True)
class CaseTarget:
    """Somebody who is scraped."""

    job: str
    instance: str
    labels: Mapping[str, str]
    is_up: bool | None  # None before the first scrape
    error: str = ""
    scraped_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CaseAlert:
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str
    active_ms: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A command that was run inside a container, because somebody asked for it and was allowed to."""

    pod: PodKey
    container: str
    command: tuple[str, ...]
    exit_code: int | None
    output: str
    t_ms: int


@dataclass(frozen=True, slots=True)
class CaseFile:
    subject: CaseSubject
    from_ms: int
    to_ms: int  # the moment that verdicts are about
    made_by: str = ""  # the version of Trilens that gathered it
    workloads: tuple[Workload, ...] = ()  # the one that it is about first
    members: tuple[MembershipInterval, ...] = ()
    phases: tuple[PhaseInterval, ...] = ()
    objects: tuple[KubeObject, ...] = ()  # as the API server has them, without secrets and environment values
    kinds: tuple[GroupKind, ...] = ()  # of which the whole cluster was asked: no others of these matter
    events: tuple[EventRecord, ...] = ()  # faults of GPUs and links; Kubernetes' own are among the objects
    findings: tuple[FindingInterval, ...] = ()
    alerts: tuple[CaseAlert, ...] = ()
    gpus: tuple[GpuSeat, ...] = ()
    series: Mapping[str, tuple[CaseSeries, ...]] = field(default_factory=dict)  # by figure: figures.py
    runs: tuple[RunFacts, ...] = ()
    ranks: tuple[RankProcess, ...] = ()
    steps: tuple[RankSteps, ...] = ()
    notes: tuple[NoteRecord, ...] = ()
    suspects: tuple[SuspectBatch, ...] = ()
    artifacts: tuple[ArtifactRecord, ...] = ()
    logs: tuple[LogText, ...] = ()
    targets: tuple[CaseTarget, ...] = ()
    probes: tuple[Probe, ...] = ()
    missing: tuple[Missing, ...] = ()  # what could not be gathered, and why
