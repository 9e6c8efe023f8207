"""What all parts of one query's evaluation share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilens.model.series import SelectRequest

if TYPE_CHECKING:
    from trilens.model.labels import LabelFrame, Symbols
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.model.series import Gridded, GridRequest, SampleBlock, Summaries
    from trilens.promql.annotations import Annotations
    from trilens.promql.nodes import At
    from trilens.promql.source import SeriesSource


@dataclass(frozen=True, slots=True)
class Context:
    source: SeriesSource
    symbols: Symbols  # the query's own: it may add label values that no series has
    guard: QueryGuard
    notes: Annotations
    start_ms: int
    end_ms: int
    step_ms: int  # 0 for an instant query
    lookback_ms: int
    subquery_step_ms: int
    _selected: dict[SelectRequest, tuple[LabelFrame, SampleBlock]] = field(default_factory=dict)
    _gridded: dict[GridRequest, Gridded | Summaries | None] = field(default_factory=dict)

    @property
    def instant(self) -> bool:
        return self.step_ms == 0

    def fixed_time(self, at: At) -> int:
        if at == "start":
            return self.start_ms
        return self.end_ms if at == "end" else at

    def select(
        self, matchers: tuple[Matcher, ...], after_ms: int, until_ms: int
    ) -> tuple[LabelFrame, SampleBlock]:
        """Raw samples; a selector that the query repeats is read once."""
        request = SelectRequest(matchers, after_ms, until_ms)
        if request not in self._selected:
            self.guard.check()
            selected = self.source.select(request, self.guard)
            self.notes.from_source(selected.warnings)
            labels = selected.labels.coded_by(self.symbols)
            self._selected[request] = (labels, selected.samples)
        return self._selected[request]

    def grid(self, request: GridRequest) -> Gridded | Summaries | None:
        """The leaf computed at the source, where it can."""
        if request not in self._gridded:
            self.guard.check()
            gridded = self.source.grid(request, self.guard)
            if gridded is not None:
                self.notes.from_source(gridded.warnings)
            self._gridded[request] = gridded
        return self._gridded[request]
