"""Money and time of GPUs: buckets, rows of the ledger, and what a node-hour costs.

Amounts are whole numbers of a quantum, 1e-9 of a currency's unit, and times whole GPU-milliseconds: sums of
either are exact in any order. People are shown a `Decimal`. None is "no price is known", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.run import RunId
    from trilens.model.workload import Doubt, WorkloadKey

HOUR_MS: Final = 3_600_000
QUANTA_PER_UNIT: Final = 1_000_000_000
QUANTUM: Final = Decimal(1) / QUANTA_PER_UNIT


class Bucket(StrEnum):
    """Every GPU-second is in exactly one of them."""

    PRODUCTIVE = "productive"
    DATA_WAIT = "data_wait"  # the next batch was not there
    SYNC_WAIT = "sync_wait"  # waited for other ranks
    CHECKPOINT = "checkpoint"
    STARTING = "starting"  # held, before its first step or its first answer
    STALLED = "stalled"  # the program lives, and no step ends
    RECOMPUTE = "recompute"  # steps after the last checkpoint that were lost
    ALLOCATED_IDLE = "allocated_idle"  # held by someone, and nothing ran on it
    SERVING_BUSY = "serving_busy"
    SERVING_IDLE = "serving_idle"
    UNALLOCATED = "unallocated"  # held by nobody
    BROKEN = "broken"  # could not be held: lost, not ready, taken out of service

    @property
    def is_fleet(self) -> bool:
        """Nobody's: the fleet pays it."""
        return self in _FLEETS

    @property
    def is_useful(self) -> bool:
        """What goodput counts."""
        return self in _USEFUL

    @property
    def is_progress(self) -> bool:
        """A program got on with it, to whatever end: its GPU works."""
        return self in _PROGRESS


# Made once: a member of an enumeration is slow to name, and these are asked of every part of an hour.
_FLEETS: Final = frozenset({Bucket.UNALLOCATED, Bucket.BROKEN})
_USEFUL: Final = frozenset({Bucket.PRODUCTIVE, Bucket.SERVING_BUSY})
_PROGRESS: Final = _USEFUL | {Bucket.DATA_WAIT, Bucket.SYNC_WAIT, Bucket.CHECKPOINT, Bucket.RECOMPUTE}


class Basis(StrEnum):
    """What a bucket was told by, the finest first."""

    STEPS = "steps"  # what the program tells of its steps
    LOAD = "load"  # requests that an inference server had
    GPU = "gpu"  # what the GPU's own telemetry says: coarser
    PHASE = "phase"  # what Kubernetes says of its pods
    NODE = "node"  # of time that nobody holds: what is known of the machine
    NONE = "none"  # held, and nobody told what for: counted as productive, and left out of goodput

    @property
    def is_signal(self) -> bool:
        """Whether something told what a GPU was used for."""
        return self in _SIGNALS


_SIGNALS: Final = frozenset({Basis.STEPS, Basis.LOAD, Basis.GPU})


class Holder(NamedTuple):
    """Whose a GPU-second is. All None: the fleet's."""

    workload: WorkloadKey | None = None
    attempt: int | None = None
    namespace: str | None = None  # of the pod
    run: RunId | None = None
    experiment: str | None = None
    team: str | None = None
    cost_centre: str | None = None
    queue: str | None = None


FLEET: Final = Holder()


class LedgerRow(NamedTuple):
    """GPU time of one hour, on one GPU, of one holder, in one bucket. `quanta` is None without a price."""

    hour_ms: int
    cluster: str
    node: str
    gpu: str  # UUID; "" where GPUs are only counted (imported history, a GPU that never reported)
    model: str
    purchase: str
    region: str
    holder: Holder
    bucket: Bucket
    cause: str  # finer than the bucket, for `cost why`: ledger/causes.py
    since_ms: int | None  # when this began, maybe hours before: the same over all hours of one episode
    step: int | None  # the run's step then
    basis: Basis
    gpu_ms: int
    throttled_ms: int  # of `gpu_ms`, where the clocks were held down; only of what is useful
    quanta: int | None
    currency: str  # "" without a price
    doubts: tuple[str, ...]  # codes; the hour's warnings say them in words


class NodeBill(NamedTuple):
    """What a node cost in an hour: the rows of that node and hour add up to this, exactly."""

    hour_ms: int
    cluster: str
    node: str
    there_ms: int  # of the hour
    gpu_ms: int  # its GPUs times that, also those that were broken
    quanta: int | None  # None when a part of the hour has no price: `priced_ms` says how much has one
    priced_ms: int
    currency: str
    components: Mapping[str, int]  # quanta by gpu, cpu, memory, storage, network, power: add up to `quanta`
    price: str  # names of the prices that were used, in order


class Warned(NamedTuple):
    """A doubt about an hour, and how many GPU-milliseconds it concerns."""

    doubt: Doubt
    gpu_ms: int


@dataclass(frozen=True, slots=True)
class LedgerHour:
    """An hour of the whole fleet as it was computed. The same facts give the same rows in the same order."""

    hour_ms: int
    upto_ms: int  # below hour_ms + HOUR_MS while the hour is not over
    rows: tuple[LedgerRow, ...]
    bills: tuple[NodeBill, ...]
    warnings: tuple[Warned, ...]
    prices: str  # digest of the price book that it was computed with


def as_quanta(amount: Decimal) -> int:
    """Half a quantum goes to the even one, as in accounting."""
    return int((amount * QUANTA_PER_UNIT).to_integral_value())


def as_amount(quanta: int) -> Decimal:
    return Decimal(quanta).scaleb(-9)
