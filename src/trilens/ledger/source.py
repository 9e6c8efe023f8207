"""What the ledger reads through and writes to: the store and the server satisfy these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_facts import Facts, RunHistory
    from trilens.model.ledger_sums import BookedHour, Dimension, Episode, Sum, Window
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId


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


class FactSource(Protocol):
    def facts(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts: ...

    def history(self, run: RunId, *, guard: QueryGuard | None = None) -> RunHistory: ...


class SignalSource(Protocol):
    def signals(self, from_ms: int, to_ms: int) -> Signals: ...


class LedgerBook(Protocol):
    """Where hours are kept. An hour is written whole, or not at all; what is read is its latest revision."""

    def write(self, hour: LedgerHour) -> int | None:
        """The revision that it now has, counted from 0; None when these rows were there already. While an
        hour is open it has no revisions: each write takes the place of the last."""

    def hours(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[BookedHour]:
        """All revisions of the hours that begin in the span, by hour and revision."""

    def sums(
        self, by: Sequence[Dimension], window: Window, *, guard: QueryGuard | None = None
    ) -> Sequence[Sum]:
        """One for each combination of the dimensions and each currency, the largest amount first."""

    def episodes(
        self, window: Window, *, limit: int = 100, guard: QueryGuard | None = None
    ) -> Sequence[Episode]:
        """What went on for a while in one bucket, for one cause, over all hours of the window."""

    def rows(self, window: Window, *, guard: QueryGuard | None = None) -> Iterator[pa.RecordBatch]:
        """The rows themselves, by hour and node, for exports; the columns are those of the table."""
