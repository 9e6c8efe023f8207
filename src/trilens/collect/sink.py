"""What the collectors need from whoever keeps the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    from trilens.model.labels import Codes, Labels
    from trilens.model.series import AppendOutcome, Floats, Times


class SampleSink(Protocol):
    """Thread-safe."""

    def series(self, labels: Labels) -> int:
        """The reference of a series, made on first sight; it holds for the life of the process."""

    def append(self, refs: Codes, t_ms: Times, values: Floats) -> AppendOutcome:
        """Take a batch. Readable at once; durable when a later `durable()` completes.

        Raises StoreReadOnly, with nothing taken, while the disk is full.
        """

    def durable(self) -> Future[None]:
        """Completes when all that was appended before is on disk; fails with StoreError if it cannot be."""

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        """Remember a metric family's type (counter, gauge, ...), help and unit."""
