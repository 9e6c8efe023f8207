"""The samples as one pass over a group sees them: what several rules select is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.labels import METRIC_NAME

if TYPE_CHECKING:
    from trilens.model.labels import Symbols
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.model.series import Gridded, GridRequest, Selected, SelectRequest, Summaries
    from trilens.promql.source import SeriesSource


class PassSource:
    """A SeriesSource for one thread and one moment."""

    def __init__(self, source: SeriesSource) -> None:
        self._source = source
        self._selected: dict[SelectRequest, Selected] = {}
        self._gridded: dict[GridRequest, Gridded | Summaries | None] = {}

    @property
    def symbols(self) -> Symbols:
        return self._source.symbols

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        found = self._selected.get(request)
        if found is None:
            found = self._selected[request] = self._source.select(request, guard)
        return found

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | Summaries | None:
        if request not in self._gridded:
            self._gridded[request] = self._source.grid(request, guard)
        return self._gridded[request]

    def recorded(self, metric: str) -> None:
        """There are new samples of this metric: what may hold it is read again."""
        self._selected = {
            r: found for r, found in self._selected.items() if not _may_hold(r.matchers, metric)
        }
        self._gridded = {r: found for r, found in self._gridded.items() if not _may_hold(r.matchers, metric)}


def _may_hold(matchers: tuple[Matcher, ...], metric: str) -> bool:
    return not any(m.name == METRIC_NAME and m.op == "=" and m.value != metric for m in matchers)
