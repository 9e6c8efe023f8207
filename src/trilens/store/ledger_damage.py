"""Hours of the ledger that are not as their names tell.

The engine sets aside a part that it cannot read. And where neither the write of a name was answered, nor the
question whether it is there, it may have come to be without its rows, or beside those that it was to replace.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.store.ledger_rows import BILLS, HOURS, NAMED_COLUMNS, ROWS, Named

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine


class Damaged(NamedTuple):
    named: Named
    others: frozenset[int]  # numbers of rows that are read as the hour's, and named by nobody


def damaged_hours(
    engine: Engine, span: str, counts: str, guard: QueryGuard | None = None
) -> dict[int, Damaged]:
    """Of those in `span`, a condition; `counts` holds for rows that are read."""
    there: defaultdict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    found = engine.query_arrow(
        "SELECT hour_ms, written, sum(rows) AS rows, sum(billed) AS billed_ms FROM ("
        f"SELECT hour_ms, written, 1 AS rows, 0 AS billed FROM {ROWS} WHERE {span} AND {counts} UNION ALL "
        f"SELECT hour_ms, written, 0, gpu_ms FROM {BILLS} WHERE {span} AND {counts}) "
        "GROUP BY hour_ms, written HAVING rows > 0 OR billed_ms > 0",
        guard=guard,
    )
    for one in found.to_pylist():
        there[one["hour_ms"]][one["written"]] = one["rows"], one["billed_ms"]
    names = engine.query_arrow(
        f"SELECT hour_ms, row_count, gpu_ms, {NAMED_COLUMNS} FROM {HOURS} FINAL WHERE {span} "
        "ORDER BY hour_ms, revision DESC LIMIT 1 BY hour_ms",
        guard=guard,
    )
    damaged = {}
    for one in names.to_pylist():
        named, told = Named.of(one), (one["row_count"], one["gpu_ms"])  # bills are of the time of the rows
        if there[one["hour_ms"]] != ({named.written: told} if any(told) else {}):
            others = there[one["hour_ms"]].keys() - {named.written}
            damaged[one["hour_ms"]] = Damaged(named, frozenset(others))
    return damaged
