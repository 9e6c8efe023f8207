"""Series that have left memory, brought back when a query asks for a time in which they had samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.query import QueryGuard
    from trilens.model.series import Matcher
    from trilens.store.archive import Archive
    from trilens.store.index import SeriesIndex
    from trilens.store.index_state import IndexState, Selection
    from trilens.store.residents import Residents


class Recall:
    """Thread-safe."""

    def __init__(self, index: SeriesIndex, residents: Residents, archive: Archive) -> None:
        self._index = index
        self._residents = residents
        self._archive = archive

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard) -> Selection:
        """The series that match, with all that have samples in (start, end] among them."""
        state = self._complete(matchers, start_ms, end_ms, guard)
        chosen = state.select(matchers)
        if start_ms >= state.horizon_ms:
            return chosen
        self._residents.note_asked(chosen.refs)
        whole_metrics = all(matcher.name == METRIC_NAME for matcher in matchers)
        return replace(chosen, siblings_known=whole_metrics)

    def _complete(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> IndexState:
        """A state of the index that has all of them; whoever holds it keeps it so."""
        wanted = frozenset(matchers)
        while True:
            state = self._index.state
            until_ms = min(end_ms, state.horizon_ms)
            if start_ms >= until_ms or _covers(state.recalled.get(wanted, ()), start_ms, until_ms):
                return state
            for matcher in matchers:
                state.text_matcher(matcher)  # a bad regular expression is refused before anything is read
            blocks = self._archive.matching(matchers, start_ms, until_ms, guard)
            if all(self._residents.take(block, state) for block in blocks):
                # Dashboards ask for a range that slides on: what was read for it serves until series leave.
                state.recalled.setdefault(wanted, []).append((start_ms, until_ms))
                return state


def _covers(ranges: Sequence[tuple[int, int]], start_ms: int, end_ms: int) -> bool:
    return any(start <= start_ms and end_ms <= end for start, end in ranges)
