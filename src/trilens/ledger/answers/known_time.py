"""How much of booked hours anything was known of: a ledger begins somewhere within an hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import Window
    from trilens.model.query import QueryGuard

A_MOMENT_MS: Final = 60_000  # a program may begin before its GPUs are first read


def known_ms(
    book: LedgerBook, hour_ms: int, upto_ms: int, guard: QueryGuard | None, cluster: str | None = None
) -> int:
    """How much of an hour is booked, of all or of one cluster. A server that has just begun knows of nodes
    only since then."""
    there = [
        bill.there_ms
        for bill in book.bills(hour_ms, hour_ms + HOUR_MS, guard=guard)
        if cluster is None or bill.cluster == cluster
    ]
    return max(there, default=upto_ms - hour_ms)


def cluster_known_ms(book: LedgerBook, cluster: str, window: Window, guard: QueryGuard | None) -> int:
    """How long a cluster was known of within a window. Where the hour before is booked too, all of an hour
    is, as far as it was computed."""
    from_ms, to_ms = window.from_ms, window.to_ms
    reached = {one.hour_ms: one.upto_ms for one in book.hours(from_ms, to_ms, guard=guard)}  # latest is last
    hours = {*book.billed_hours(cluster, from_ms, to_ms, guard=guard)}
    return sum(
        upto_ms - hour if hour - HOUR_MS in hours else known_ms(book, hour, upto_ms, guard, cluster)
        for hour, upto_ms in reached.items()
        if hour in hours
    )


def known_since_ms(
    book: LedgerBook, hour_ms: int, reached: Mapping[int, int], guard: QueryGuard | None
) -> int:
    """Since when anything was known in an hour: only that with which a ledger begins may have a time before.
    `reached` has until when hours are booked, also the one before it."""
    if hour_ms not in reached or hour_ms - HOUR_MS in reached:
        return hour_ms
    return reached[hour_ms] - known_ms(book, hour_ms, reached[hour_ms], guard)
