"""What detectors look at: the whole fleet at one moment, and the minutes before it.

Whoever makes a scene reads the clock, the store and the network; a detector reads nothing but the scene, so
that the same scenes always give the same findings, live, in a replay and on the scoreboard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trilens.model.event import EventRecord
    from trilens.model.life import Phase
    from trilens.model.run import NoteRecord, RankProcess, RunFacts
    from trilens.model.workload import Doubt, GpuUuid, PodKey, WorkloadKey


class Figure(StrEnum):
    """What a GPU says of itself, in base units."""

    UTILIZATION = "utilization"  # 0 to 1: how much of the time some kernel ran
    POWER = "power"  # watts
    SM = "sm"  # 0 to 1
    TENSOR = "tensor"  # 0 to 1
    NVLINK = "nvlink"  # bytes a second, both ways
    PCIE = "pcie"  # bytes a second, both ways
    TEMPERATURE = "temperature"  # degrees Celsius
    SM_CLOCK = "sm-clock"  # hertz
    MEMORY_USED = "memory-used"  # 0 to 1
    CLOCK_REASONS = "clock-reasons"  # a mask: what holds the clocks down
    XID = "xid"  # the last code, which DCGM holds for ever; 0 for none
    ROW_REMAP_PENDING = "row-remap-pending"  # 1: memory rows wait for a reset to be replaced


class Place(NamedTuple):
    """A GPU, or a MIG instance of one, and who has it at the scene's moment."""

    uuid: GpuUuid
    instance: str  # "" where it is a whole GPU
    cluster: str
    node: str
    number: str  # of the GPU on its node
    model: str
    workload: WorkloadKey | None = None
    pod: PodKey | None = None
    rank: int | None = None
    is_labelled: bool | None = None  # its readings name a pod; None where nobody looked


@dataclass(frozen=True, slots=True, eq=False)
class Telemetry:
    """Rows are places, columns moments; NaN where nothing was said in that column. An exporter that is asked
    every 30 s fills one column in six of those that are 5 s apart. Rows are this scene's: what a detector
    remembers of a GPU, it remembers by its UUID. The arrays are used again: none may be kept or changed."""

    places: Sequence[Place]
    times_ms: NDArray[np.int64]  # ascending, evenly spaced; the last is the scene's moment, or the one before
    figures: Mapping[Figure, NDArray[np.float32]]  # a figure that nobody reports is not among them
    # Rows that were last told in a value by which DCGM means "not known".
    blanks: Mapping[Figure, NDArray[np.bool_]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The last steps of one life of a rank, oldest first; columns of one length."""

    step: NDArray[np.int64]
    end_ms: NDArray[np.int64]  # by the clock of this server
    ms: NDArray[np.float64]  # how long it took, the wait for its data included
    data_ms: NDArray[np.float64]
    sync_ms: NDArray[np.float64]  # waiting for other ranks
    loss: NDArray[np.float64]  # NaN where none was logged; the others likewise
    grad_norm: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.step)


class ToldBy(StrEnum):
    RECORDS = "records"  # of the SDK: every step
    METRICS = "metrics"  # scraped: where it stood at each scrape


@dataclass(frozen=True, slots=True, eq=False)
class RankView:
    rank: int
    told_by: ToldBy
    steps: Steps
    heard_ms: int  # the last sign of life, by this server's clock
    process: RankProcess | None = None  # None where only metrics tell
    doing: str | None = None  # what it said it is in the middle of: checkpoint, validation, compile, a phase
    doing_since_ms: int | None = None
    notes: Sequence[NoteRecord] = ()  # of the last minutes
    row: int | None = None  # of its GPU in the telemetry; None where that is not known
    # Of one that is not heard: whether its socket takes connections, so that its process is there though no
    # Python runs in it. None where nobody asked, or nobody answers.
    listens: bool | None = None


class PodView(NamedTuple):
    pod: PodKey
    node: str
    # Pending, Running, Succeeded, Failed, Unknown. Gone, of one that went away some minutes ago; Failed, if
    # it had failed by itself before.
    state: str
    reason: str = ""  # OOMKilled, Error, Evicted, ...
    exit_code: int | None = None
    restarts: int = 0
    changed_ms: int | None = None  # when it came into this state
    created_ms: int | None = None
    # Since when somebody wants it gone that ran: it is drained, preempted, held back by its queue, deleted by
    # its controller or by a person. None also where it had ended before.
    asked_to_go_ms: int | None = None
    gone_ms: int | None = None


class NodeView(NamedTuple):
    cluster: str
    node: str
    is_ready: bool | None
    rack: str = ""
    switch: str = ""
    nvlink_domain: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class JobView:
    """A workload with its run, as far as one is known; or a run whose workload nobody knows."""

    workload: WorkloadKey | None
    team: str | None
    attempt: int
    phase: Phase | None
    phase_since_ms: int | None
    serves: bool  # an inference server, which makes no steps
    run: RunFacts | None = None
    ranks: Sequence[RankView] = ()  # by rank
    rows: Sequence[int] = ()  # of its GPUs in the telemetry
    pods: Sequence[PodView] = ()
    name: str = ""  # where it has neither workload nor run: what its own metrics call it


class Offender(NamedTuple):
    """How often hardware failed over the last 30 days, of a GPU, or of a node where `uuid` is None."""

    cluster: str  # "" where nobody told it
    node: str
    uuid: GpuUuid | None
    faults: int
    last_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    now_ms: int
    telemetry: Telemetry
    jobs: Sequence[JobView]
    nodes: Sequence[NodeView] = ()
    events: Sequence[EventRecord] = ()  # of the last minutes
    suspects: Mapping[int, tuple[Doubt, ...]] = field(
        default_factory=dict
    )  # rows not to be believed, and why
    offenders: Sequence[Offender] = ()
