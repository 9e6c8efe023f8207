"""What the collectors need from whoever keeps the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np
    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame, Labels
    from trilens.model.series import AppendOutcome, Floats, Handles, Times


class SampleSink(Protocol):
    """Thread-safe."""

    def series(self, labels: Labels) -> int:
        """The handle of a series, made on first sight. It may be kept for as long as `held` says so."""

    def series_of(self, labels: LabelFrame) -> Handles:
        """The same for a row each, at a fraction of the cost when there are thousands."""

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        """Which of these series are still known; they are for some minutes more.

        A series without samples for long is forgotten, and `series` then gives it another handle.
        """

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        """Take a batch. Readable at once; durable when a later `durable()` completes.

        Raises StoreReadOnly, with nothing taken, while the disk is full, and StoreError for a handle that is
        no longer held.
        """

    def durable(self) -> Future[None]:
        """Completes when all that was appended before is on disk; fails with StoreError if it cannot be."""

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        """Remember a metric family's type (counter, gauge, ...), help and unit."""
