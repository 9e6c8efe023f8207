"""What the evaluator needs from whoever holds the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trilens.model.labels import Symbols
    from trilens.model.query import QueryGuard
    from trilens.model.series import Gridded, GridRequest, Selected, SelectRequest, Summaries


class SeriesSource(Protocol):
    """Thread-safe. It counts what it reads against the guard.

    Labels come coded by `symbols`, or by a later table of the same source: see `LabelFrame.coded_by`.
    """

    @property
    def symbols(self) -> Symbols: ...

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        """Raw samples."""

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | Summaries | None:
        """The same leaf computed at the source, or summaries to compute it from; None where only `select`
        gives the exact answer."""
