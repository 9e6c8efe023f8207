"""The ledger as a sight shows it: filtered where it is read, so that every sum is exactly one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.ledger_sums import Dimension

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger import NodeBill
    from trilens.model.ledger_sums import BookedHour, Episode, Sum, Window
    from trilens.model.query import QueryGuard
    from trilens.serve.access.sight import Sight


def seen_book(book: LedgerBook, sight: Sight) -> LedgerBook:
    return book if sight.is_whole else _SeenBook(book, sight)


class _SeenBook:
    """Time that nobody held has no team: it is no team's money."""

    def __init__(self, book: LedgerBook, sight: Sight) -> None:
        self._book = book
        self._sight = sight

    def sums(
        self, by: Sequence[Dimension], window: Window, *, guard: QueryGuard | None = None
    ) -> Sequence[Sum]:
        seen = self._narrowed(window)
        return self._book.sums(by, seen, guard=guard) if seen is not None else []

    def episodes(
        self, window: Window, *, limit: int = 100, guard: QueryGuard | None = None
    ) -> Sequence[Episode]:
        seen = self._narrowed(window)
        return self._book.episodes(seen, limit=limit, guard=guard) if seen is not None else []

    def rows(self, window: Window, *, guard: QueryGuard | None = None) -> Iterator[pa.RecordBatch]:
        seen = self._narrowed(window)
        return self._book.rows(seen, guard=guard) if seen is not None else iter(())

    def hours(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[BookedHour]:
        """Which there are and how far; what is in them is everybody's, and their warnings name others."""
        return [
            one._replace(
                rows=0,
                gpu_ms=0,
                quanta=0,
                unpriced_ms=0,
                currency="",
                changed_quanta=0,
                reason="",
                digest="",
                warnings=(),
            )
            for one in self._book.hours(from_ms, to_ms, guard=guard)
        ]

    # What nodes cost: to work out prices and known time with, and of clusters that are seen alone.

    def bills(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[NodeBill]:
        found = self._book.bills(from_ms, to_ms, guard=guard)
        return [one for one in found if self._sight.shows_cluster(one.cluster)]

    def bill_parts(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Mapping[tuple[str, str], Mapping[str, int]]:
        found = self._book.bill_parts(from_ms, to_ms, guard=guard)
        return {node: parts for node, parts in found.items() if self._sight.shows_cluster(node[0])}

    def billed_hours(
        self, cluster: str, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Collection[int]:
        return self._book.billed_hours(cluster, from_ms, to_ms, guard=guard)

    def incomplete(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[int]:
        return self._book.incomplete(from_ms, to_ms, guard=guard)

    def _narrowed(self, window: Window) -> Window | None:
        """None where nothing of it is seen."""
        where = dict(window.where)
        for dimension, seen in (
            (Dimension.CLUSTER, self._sight.clusters),
            (Dimension.TEAM, self._sight.teams),
        ):
            if seen is not None:
                asked = where.get(dimension, tuple(sorted(seen)))
                where[dimension] = kept = tuple(one for one in asked if one in seen)
                if not kept:
                    return None
        return replace(window, where=where)
