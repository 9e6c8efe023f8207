"""What a training program tells of itself: a run, its processes, their steps, batches and checkpoints.

A run is one training, over all its ranks and restarts. A process is one life of one rank; which life it is,
its attempt, is counted from 0 by the server in the order in which processes of that rank began. Times of the
program are microseconds of its own clock. None is "nobody said so", never zero.
"""

from __future__ import annotations

# What is in annotations here is read when a bundle is read.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, NewType

RunId = NewType("RunId", str)
WriterId = NewType("WriterId", str)  # of one process: its batches are counted under it


class Tracker(NamedTuple):
    """The same run in an experiment tracker."""

    system: str  # mlflow, wandb, tensorboard
    run: str
    where: str = ""  # its server, project or folder


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What holds for the whole run. Told by its lowest rank; told again, it replaces what was told."""

    run: RunId
    created_ms: int
    experiment: str | None = None
    name: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    world_size: int | None = None
    total_steps: int | None = None
    trackers: tuple[Tracker, ...] = ()
    source: str = "sdk"  # who told: sdk, otlp


class Ending(StrEnum):
    FINISHED = "finished"  # said so itself
    FAILED = "failed"  # an exception left the program, or it said so
    LOST = "lost"  # no heartbeat any more: killed, or its machine is gone


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One life of one rank. (run, rank, writer) names it; told again, it replaces what was told."""

    run: RunId
    rank: int
    writer: WriterId
    started_ms: int
    attempt: int = 0  # counted by the server
    local_rank: int | None = None
    world_size: int | None = None
    node: str = ""
    pid: int | None = None
    process_started_ms: int | None = None  # as /proc tells it, to find the process among an agent's
    namespace: str | None = None  # of its pod
    pod: str | None = None
    pod_uid: str | None = None
    container: str | None = None
    gpus: tuple[str, ...] = ()  # UUIDs of those it uses
    launcher: str | None = None  # torchrun, slurm, mpi, jobset, kubeflow
    job: str | None = None  # what the launcher calls the job
    metrics_address: str | None = None  # host:port of its /metrics
    versions: Mapping[str, str] = field(default_factory=dict)  # python, torch, cuda, nccl, trilens
    heartbeat_s: float = 2.0  # how often it promised to tell that it lives
    heard_ms: int = 0  # when it last did, by the server's clock
    step: int | None = None  # the last one it told of
    phase: str | None = None  # what it was in the middle of then
    clock_offset_us: int | None = None  # what to add to its clock to have rank 0's
    lost: Mapping[str, int] = field(default_factory=dict)  # what the SDK had to drop, by kind
    ended_ms: int | None = None
    ending: Ending | None = None
    error: str | None = None
    cluster: str | None = None  # that it said it is in, or that its token is for
    told_ms: int | None = None  # what its own clock said when it was last heard; not kept on disk


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step on one rank. (run, step, rank, attempt, n) names it."""

    run: RunId
    step: int
    rank: int
    attempt: int
    n: int  # the how-manieth step of its process, from 0: a process may go back and do a step again
    start_us: int
    duration_us: int
    phases: Mapping[str, int] = field(default_factory=dict)  # microseconds of the program's time
    device_phases: Mapping[str, int] = field(default_factory=dict)  # the same on the GPU, where events told
    values: Mapping[str, float] = field(default_factory=dict)  # loss, grad_norm, lr, and what else was logged
    samples: int | None = None
    tokens: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """Which samples a step saw. One of `first`, `ids` and `names` tells, or `unknown` says why none does.

    A step that accumulates gradients has several, counted by `i`.
    """

    run: RunId
    step: int
    rank: int
    attempt: int
    n: int
    i: int = 0
    dataset: str = ""
    shard: str | None = None  # of an iterable dataset: ids are then offsets in it
    epoch: int | None = None
    size: int | None = None  # samples
    first: int | None = None  # of a compact range: first, first + stride, ... `size` of them
    stride: int = 1
    ids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    digest: str | None = None  # of the ids in order, 16 hex digits: model/sample_ids.py
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A checkpoint that was written, or one that was loaded. (run, rank, attempt, n) names it."""

    run: RunId
    step: int
    rank: int
    attempt: int
    n: int  # the how-manieth of its process
    path: str
    start_ms: int
    loaded: bool = False
    duration_us: int | None = None
    size_bytes: int | None = None
    ok: bool = True
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ValidationRecord:
    run: RunId
    step: int
    rank: int
    attempt: int
    n: int
    t_ms: int
    duration_us: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """Something that happened in a process: ranks missing at a barrier, steps that stopped, a value that is
    not finite, something lost."""

    run: RunId
    rank: int
    attempt: int
    n: int
    t_ms: int
    # barrier, stalled, moving (again, after a stall), frozen, resumed (from a checkpoint), nonfinite, lost,
    # exception, attached, preflight, slow-link, collectives (how far it has come in each process group)
    kind: str
    text: str
    step: int | None = None
    data: Mapping[str, object] = field(default_factory=dict)  # for machines: {"missing": [3]}


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """A file of evidence that a process sent: all stacks, a flight recorder's dump."""

    run: RunId
    rank: int
    attempt: int
    n: int
    t_ms: int
    kind: str  # stacks, flight-recorder, preflight
    name: str
    content: bytes
