"""What is asked of the ledger, and what it adds up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.ledger import Bucket, Warned
    from trilens.model.run import RunId
    from trilens.model.workload import WorkloadKey


class Dimension(StrEnum):
    TEAM = "team"
    COST_CENTRE = "cost-centre"
    NAMESPACE = "namespace"
    QUEUE = "queue"
    EXPERIMENT = "experiment"
    WORKLOAD = "workload"  # its key is (cluster, namespace, group, kind, name, uid)
    RUN = "run"
    CLUSTER = "cluster"
    NODE = "node"
    GPU = "gpu"
    GPU_MODEL = "gpu-model"
    PURCHASE = "purchase"
    REGION = "region"
    BUCKET = "bucket"
    CAUSE = "cause"
    BASIS = "basis"
    HOUR = "hour"
    DAY = "day"  # of UTC


class Sharing(StrEnum):
    """Who pays for time that nobody held."""

    NONE = "none"  # the fleet
    BY_COST = "by-cost"  # those who held GPUs beside it


class Unit(StrEnum):
    """What a cost is divided by."""

    STEP = "step"
    TOKEN = "token"  # noqa: S105  told by the million
    REQUEST = "request"
    IMPROVEMENT = "improvement"


# A server that starts, a scrape that is late: so little of its time untold changes no price that people read.
TOLD_WELL: Final = Decimal("0.95")


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours, `to_ms` not included. `where` keeps only what has one of these values; None among them is
    "has none"."""

    from_ms: int
    to_ms: int
    where: Mapping[Dimension, tuple[str | None, ...]] = field(default_factory=dict)


class Sum(NamedTuple):
    """`keys` in the order that was asked for; None where the rows have none (the fleet has no team).

    `quanta` is of what has a price, `unpriced_ms` is GPU time without one. Both kinds never stand in one sum
    with two currencies. A workload's key is its WorkloadKey; a day or an hour is its beginning in ms.
    """

    keys: tuple[str | int | WorkloadKey | None, ...]
    gpu_ms: int
    throttled_ms: int
    useful_ms: int  # productive and serving_busy, told by some signal
    signal_ms: int  # told by some signal: what goodput divides by; without what only a table had
    quanta: int
    unpriced_ms: int
    currency: str  # "" where nothing in it has a price


class Episode(NamedTuple):
    """The same bucket, cause and beginning, over all GPUs and hours that it lasted in the window."""

    bucket: Bucket
    cause: str
    workload: WorkloadKey | None
    run: RunId | None
    team: str | None
    cluster: str
    node: str | None  # where it was a single one
    since_ms: int | None
    first_ms: int  # first and last hour of it in the window
    last_ms: int
    step: int | None
    gpus: int  # of those without a UUID as many as it takes for so much time
    gpu_ms: int
    quanta: int
    unpriced_ms: int
    currency: str


class BookedHour(NamedTuple):
    """One revision of an hour. A later one is a correction: `changed_quanta` is how much moved between rows,
    counted once, and `reason` why it was computed again."""

    hour_ms: int
    revision: int
    upto_ms: int
    computed_ms: int
    rows: int
    gpu_ms: int
    quanta: int
    unpriced_ms: int
    currency: str  # "" without a price, "several" with more than one
    changed_quanta: int
    reason: str
    prices: str
    digest: str
    warnings: tuple[Warned, ...]
