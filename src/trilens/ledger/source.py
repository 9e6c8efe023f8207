"""What the ledger reads through and writes to: the store and the server satisfy these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from trilens.model.ledger import LedgerHour, NodeBill
    from trilens.model.ledger_facts import Facts, RankSteps, RunHistory, StepMinutes
    from trilens.model.ledger_sums import BookedHour, Dimension, Episode, Sum, Window
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunId


@dataclass(frozen=True, slots=True)
class GpuMinutes:
    """What GPUs said of themselves, by minute; NaN where nothing was said. Rows are GPUs, columns are
    minutes from `from_ms` on."""

    from_ms: int
    gpus: Mapping[tuple[str, str], int]  # (UUID, instance) to its row
    active: NDArray[np.float64]  # 0 to 1: how much of the minute a kernel ran
    busy: NDArray[np.float64]  # 0 to 1: how much its arithmetic did, SM_ACTIVE or TENSOR_ACTIVE
    watts: NDArray[np.float64]
    throttled: NDArray[np.float64]  # 0 to 1: how much of the minute a slowdown held the clocks down


@dataclass(frozen=True, slots=True)
class ServingMinutes:
    """What inference servers had to do, by minute; NaN where nothing was said. Rows are pods."""

    from_ms: int
    pods: Mapping[tuple[str, str, str], int]  # (cluster, namespace, pod) to its row
    running: NDArray[np.float64]  # requests in work, the mean of the minute
    requests: NDArray[np.float64]  # that ended in it
    tokens: NDArray[np.float64]  # that came out in it


@dataclass(frozen=True, slots=True)
class Signals:
    gpus: GpuMinutes
    serving: ServingMinutes
    trouble: tuple[str, ...] = ()  # what could not be asked, and why


def no_signals(from_ms: int) -> Signals:
    """Nothing was said, and nothing was asked."""
    nothing = np.zeros((0, 60))
    return Signals(
        GpuMinutes(from_ms, {}, nothing, nothing, nothing, nothing),
        ServingMinutes(from_ms, {}, nothing, nothing, nothing),
    )


class FactSource(Protocol):
    def records(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        """All but the steps, which are most of it."""

    def programs(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        """Only the lives within the span, and their checkpoints."""

    def rank_steps(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> RankSteps:
        """What these lives did in the span."""

    def step_minutes(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> StepMinutes:
        """The same by the minute, which is far more to read; with tokens and samples."""

    def with_steps(
        self, records: Facts, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Facts:
        """These, and when the steps of a part of their time were: without the tokens and samples in them."""

    def histories(
        self, runs: Sequence[RunId], *, guard: QueryGuard | None = None
    ) -> Mapping[RunId, RunHistory]:
        """Of all of these, also of those of which nothing is known."""

    def repeating(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> Mapping[RunId, int]:
        """Those of which a rank has gone forward more than once, in one life or in several: with how many
        ways all of its ranks have together. Only they, and those that crashed, may have lost work."""

    def first_ms(self, *, guard: QueryGuard | None = None) -> int | None:
        """When the first machine, GPU or binding begins; None where there is none. Not of imports: between
        these and what Trilens has seen may lie years of nothing."""


class SignalSource(Protocol):
    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        """`is_open`: for an hour that is not over, which is computed again every minute. What is settled of
        the span may then be as it was read for the minute before."""

    def serving(self, from_ms: int, to_ms: int) -> Signals:
        """Of inference servers alone: little, where all GPUs of a day or a month would be much."""


class LedgerBook(Protocol):
    """Hours that were booked; what is read of one is its latest revision."""

    def hours(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[BookedHour]:
        """All revisions of the hours that begin in the span, by hour and revision."""

    def incomplete(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[int]:
        """Hours that begin in the span, and have not all the rows and bills that were written: computing and
        writing them again brings these back."""

    def sums(
        self, by: Sequence[Dimension], window: Window, *, guard: QueryGuard | None = None
    ) -> Sequence[Sum]:
        """One for each combination of the dimensions and each currency, the largest amount first."""

    def episodes(
        self, window: Window, *, limit: int = 100, guard: QueryGuard | None = None
    ) -> Sequence[Episode]:
        """What went on for a while in one bucket, for one cause, over all hours of the window."""

    def bills(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[NodeBill]:
        """Of the hours that begin in the span, by hour, cluster and node."""

    def bill_parts(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """Quanta by part (gpu, cpu, ...) of all bills of a node in the span, by (cluster, node)."""

    def billed_hours(
        self, cluster: str, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Collection[int]:
        """When the hours of the span begin in which the cluster had machines."""

    def rows(self, window: Window, *, guard: QueryGuard | None = None) -> Iterator[pa.RecordBatch]:
        """The rows themselves, by hour and node, for exports; the columns are those of the table."""


class WrittenBook(LedgerBook, Protocol):
    """Where hours are kept. An hour is written whole, or not at all."""

    def write(self, hour: LedgerHour, *, reason: str = "") -> int | None:
        """The revision that it now has, counted from 0; None when these rows were there already. While an
        hour is open it has no revisions: each write takes the place of the last. The price book's digest is
        taken over even where the rows are the same: it says with what the hour was last computed."""

    def write_all(self, hours: Sequence[LedgerHour], *, reason: str = "") -> Sequence[int | None]:
        """The same of several, each whole or not at all."""
