"""What really is in a simulated cluster: for scoring what others make of it, never their input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trilens.simulate.training_data import samples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.simulate.training import TrainingRun
    from trilens.simulate.training_data import SeenSamples


@dataclass(slots=True)
class Seat:
    """One pod in its job, as its operator would say it."""

    pod_uid: str
    pod: str
    namespace: str
    job_uid: str
    attempt: int  # of this pod's place: how many held it before
    role: str
    group: int | None
    node_rank: int | None
    from_ms: int  # when the pod was made
    to_ms: int | None = None  # when it ended or went


@dataclass(slots=True)
class RankOnGpu:
    """A rank, or a serving process, had this GPU, or this part of it."""

    job_uid: str
    attempt: int
    pod_uid: str
    rank: int | None  # None: not a rank (inference, notebooks)
    local_rank: int
    node: str
    gpu_uuid: str
    gpu_instance: str  # "" without MIG
    replica: int | None  # which share of a time-sliced GPU
    from_ms: int
    to_ms: int | None = None


@dataclass(slots=True)
class NodeTruth:
    """A machine that was there, and paid for."""

    name: str
    gpu_uuids: tuple[str, ...]
    instance_share: float  # what one MIG instance is of its GPU; 1 without MIG
    from_ms: int
    to_ms: int | None = None


@dataclass(slots=True)
class JobTruth:
    uid: str
    namespace: str
    group: str
    kind: str
    name: str
    template: str
    team: str
    queue: str
    trains: bool
    from_ms: int  # when it was submitted
    to_ms: int | None = None  # when it was over
    outcome: str = ""  # "", succeeded, failed


@dataclass(slots=True)
class AttemptTruth:
    """One life of a job, from the moment that all its pods ran."""

    job_uid: str
    attempt: int
    first_step: int  # where it took up: the last good checkpoint
    from_ms: int
    to_ms: int | None = None
    last_step: int | None = None
    ended_by: str = ""  # "", done, or the kind of the fault
    run: TrainingRun | None = None

    def steps(self, after: int, upto: int) -> Iterator[StepRecord]:
        """The records of all ranks for these steps, as far as this attempt made them."""
        if self.run is not None:
            yield from self.run.records(after, upto if self.last_step is None else min(upto, self.last_step))

    def samples(self, rank: int, step: int) -> SeenSamples:
        assert self.run is not None
        return samples_of(self.run.spec, self.run.ranks, rank, step)


@dataclass(slots=True)
class RunTruth:
    """A training whose ranks tell of it (docs/sdk-protocol.md), over all attempts of its job."""

    run: str  # its id
    job_uid: str
    attempts: list[AttemptTruth] = field(default_factory=list)  # counted as a server counts them
    told: dict[tuple[int, int], range] = field(default_factory=dict)  # by attempt and rank: which steps

    def inside(self, attempt: int, step: int) -> list[tuple[int, int, int]]:
        """What a checkpoint contains that this attempt wrote at that step: attempt, first and last step."""
        began_at = self.attempts[attempt].first_step
        own = [(attempt, began_at + 1, step)] if step > began_at else []
        writer = next(
            (
                before
                for before in range(attempt - 1, -1, -1)
                if self.attempts[before].first_step < began_at <= (self.attempts[before].last_step or 0)
            ),
            None,
        )
        return own if writer is None else [*self.inside(writer, began_at), *own]


@dataclass(slots=True)
class FaultTruth:
    """Something that was made to go wrong. What it does not concern is ""."""

    kind: str
    from_ms: int
    to_ms: int | None = None
    node: str = ""
    gpu_uuid: str = ""
    job_uid: str = ""
    attempt: int | None = None
    rank: int | None = None  # the culprit
    detail: str = ""
    takes_out: bool = False  # while it lasts, nobody can use the GPU, or any of the node's


class StepRecord(NamedTuple):
    """One step of one rank; phases in seconds."""

    step: int
    rank: int
    end_ms: int
    data_s: float
    forward_s: float
    backward_s: float
    grad_sync_s: float
    optimizer_s: float
    loss: float


@dataclass(slots=True)
class Truth:
    jobs: dict[str, JobTruth] = field(default_factory=dict)  # by uid
    attempts: list[AttemptTruth] = field(default_factory=list)
    runs: dict[str, RunTruth] = field(default_factory=dict)  # by id: those whose ranks tell of them
    seats: dict[str, Seat] = field(default_factory=dict)  # by pod uid
    gpus: list[RankOnGpu] = field(default_factory=list)
    faults: list[FaultTruth] = field(default_factory=list)
    nodes: list[NodeTruth] = field(default_factory=list)
    calm: list[FaultTruth] = field(default_factory=list)  # what only looks like trouble
