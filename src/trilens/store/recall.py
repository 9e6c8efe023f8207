"""Series that have left memory, brought back when a query asks for a time in which they had samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.errors import QueryTooLarge
from trilens.model.labels import METRIC_NAME
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.store.archive import Archive
    from trilens.store.index import SeriesIndex
    from trilens.store.index_state import IndexState, Selection
    from trilens.store.residents import Residents


_MAX_RECALLED = 512  # ad-hoc queries come and go; rules and pages fit many times


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
            read = _widened(start_ms, until_ms, state.horizon_ms)
            try:
                blocks = self._archive.matching(matchers, *read, guard)
            except QueryTooLarge:
                read = (start_ms, until_ms)
                blocks = self._archive.matching(matchers, *read, guard)
            if all(self._residents.take(block, state) for block in blocks):
                if len(state.recalled) > _MAX_RECALLED:
                    state.recalled.clear()
                state.recalled[wanted] = _merged([*state.recalled.get(wanted, ()), read])
                return state


def _widened(start_ms: int, end_ms: int, horizon_ms: int) -> tuple[int, int]:
    """To whole hours and one more: rules and pages ask for a range that slides on."""
    return start_ms // HOUR_MS * HOUR_MS, min((-(-end_ms // HOUR_MS) + 1) * HOUR_MS, horizon_ms)


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times, no two ranges touching."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _covers(ranges: Sequence[tuple[int, int]], start_ms: int, end_ms: int) -> bool:
    return any(start <= start_ms and end_ms <= end for start, end in ranges)
