"""What is known of a span of time, for booking it: who had which GPU, and what ran on it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.model.event import EventRecord
    from trilens.model.gpu import BindingInterval, GpuInterval
    from trilens.model.imported import ImportedJob, UsagePoint
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.machine import MachineInterval
    from trilens.model.run import CheckpointRecord, RankProcess, RunFacts, RunId, ValidationRecord
    from trilens.model.run_sums import AttemptSpan
    from trilens.model.workload import WorkloadKey


WORKS_MS: Final = (
    60_000  # of a GPU after a fault: the last step of a program that is about to fail is no work
)


class LifeKey(NamedTuple):
    """One life of one rank of a run."""

    run: RunId
    rank: int
    attempt: int


class FoundStall(NamedTuple):
    """No step of a run ended from then to then: found by detectors while it lasted."""

    run: RunId
    from_ms: int
    to_ms: int


class Owner(NamedTuple):
    """Who a workload belongs to, from `from_ms` on until the next; the first holds for all time before."""

    from_ms: int
    team: str | None
    cost_centre: str | None
    experiment: str | None
    queue: str | None


class LastStep(NamedTuple):
    """The nearest step of a life outside of a span of time. `pace_us` is from one step's end to the next,
    in the minute that it ended in; None where it is alone in it. `start_us` of the last of several is about
    when it began."""

    step: int
    start_us: int
    end_us: int
    pace_us: int | None


@dataclass(frozen=True, slots=True)
class StepMinutes:
    """The steps of all ranks, added up by the minute in which they ended; columns of one length, in the order
    of run, rank, attempt and minute.

    A stall is longer than a minute, so it always lies between two rows: none is missed by adding up. Times
    are of the clock of rank 0, as far as offsets are known. First and last are by the time at which they
    ended: a process that goes back has a last step below its first one.
    """

    runs: tuple[RunId, ...]  # what `run` counts
    run: NDArray[np.int32]
    rank: NDArray[np.int32]
    attempt: NDArray[np.int32]
    minute: NDArray[np.int64]  # since 1970
    steps: NDArray[np.int64]
    first_step: NDArray[np.int64]
    last_step: NDArray[np.int64]
    first_start_us: NDArray[np.int64]
    first_end_us: NDArray[np.int64]
    last_end_us: NDArray[np.int64]
    step_us: NDArray[np.int64]  # all steps together
    data_us: NDArray[np.int64]  # of the phase `data`, the program's time; the others likewise
    sync_us: NDArray[np.int64]
    checkpoint_us: NDArray[np.int64]
    device_us: NDArray[np.int64]  # all phases on the GPU but `data`, in which it waits; 0: none told
    device_sync_us: NDArray[np.int64]
    tokens: NDArray[np.int64]  # 0 where not told
    samples: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.run)

    @property
    def begins_life(self) -> NDArray[np.bool_]:
        """Of each row, whether it is the first of its life."""
        begins = np.ones(len(self), np.bool_)
        begins[1:] = (
            (self.run[1:] != self.run[:-1])
            | (self.rank[1:] != self.rank[:-1])
            | (self.attempt[1:] != self.attempt[:-1])
        )
        return begins

    def nearest(self, rows: NDArray[np.int64], *, is_last: bool) -> dict[LifeKey, LastStep]:
        """The last or the first step of these rows, each of another life."""
        steps, first_end, last_end = self.steps[rows], self.first_end_us[rows], self.last_end_us[rows]
        start = self.first_start_us[rows]
        if is_last:  # of several, as if it took as long as the others
            start = np.where(steps == 1, start, last_end - self.step_us[rows] // steps)
        columns = (
            self.run[rows],
            self.rank[rows],
            self.attempt[rows],
            steps,
            (self.last_step if is_last else self.first_step)[rows],
            start,
            last_end if is_last else first_end,
            (last_end - first_end) // np.maximum(steps - 1, 1),
        )
        return {
            LifeKey(self.runs[run], rank, attempt): LastStep(
                step, start_us, end_us, pace_us if many > 1 else None
            )
            for run, rank, attempt, many, step, start_us, end_us, pace_us in zip(
                *(column.tolist() for column in columns), strict=True
            )
        }

    def picked(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> StepMinutes:
        """Only these rows."""
        columns = {one.name: getattr(self, one.name)[rows] for one in fields(self) if one.name != "runs"}
        return replace(self, **columns)


def no_minutes() -> StepMinutes:
    narrow, wide = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return StepMinutes((), narrow, narrow, narrow, *([wide] * 15))


@dataclass(frozen=True, slots=True)
class RankSteps:
    """How many steps each rank ended in a span of time, with the tokens and samples in them; columns of one
    length, a row for each life. Tokens and samples are 0 where not told."""

    runs: tuple[RunId, ...]  # what `run` counts
    run: NDArray[np.int32]
    rank: NDArray[np.int32]
    steps: NDArray[np.int64]
    tokens: NDArray[np.int64]
    samples: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that overlaps [from_ms, to_ms), whole: who reads clips it. Ends that are not known are None."""

    from_ms: int
    to_ms: int
    machines: Sequence[MachineInterval] = ()
    gpus: Sequence[GpuInterval] = ()
    bindings: Sequence[BindingInterval] = ()
    members: Sequence[MembershipInterval] = ()
    owners: Mapping[WorkloadKey, Sequence[Owner]] = field(default_factory=dict)
    phases: Sequence[PhaseInterval] = ()
    faults: Sequence[EventRecord] = ()  # of GPUs, from a day before on: what they broke may still be
    worked: Mapping[str, Sequence[int]] = field(default_factory=dict)  # hours of these GPUs, as booked before
    runs: Mapping[RunId, RunFacts] = field(default_factory=dict)  # of the lives below
    lives: Sequence[RankProcess] = ()  # also those before, and an hour after, in pods that held a GPU in it
    minutes: StepMinutes = field(default_factory=no_minutes)
    earlier: Mapping[LifeKey, LastStep] = field(default_factory=dict)  # the last that ended before from_ms
    later: Mapping[LifeKey, LastStep] = field(default_factory=dict)  # the first that ended at or after to_ms
    checkpoints: Sequence[CheckpointRecord] = ()
    validations: Sequence[ValidationRecord] = ()
    stalls: Sequence[FoundStall] = ()
    jobs: Sequence[ImportedJob] = ()
    usage: Sequence[UsagePoint] = ()


class RunHistory(NamedTuple):
    """A whole run, for finding what of it was lost."""

    processes: Sequence[RankProcess]
    spans: Sequence[AttemptSpan]
    checkpoints: Sequence[CheckpointRecord]
