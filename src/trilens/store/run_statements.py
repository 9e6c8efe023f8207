"""What the tables of runs are asked, in the engine's words."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from trilens.store import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.model.run_sums import Portion, Tail
    from trilens.store.engine import Engine
    from trilens.store.run_rows import RunTable

BY_STEP: Final = "step, rank, attempt, n"


class RunTables:
    """The same question, of any of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def rows(
        self,
        table: RunTable,
        terms: Sequence[str],
        order: str,
        *,
        final: bool = False,
        limit: int | None = None,
        guard: QueryGuard | None = None,
    ) -> list[dict[str, Any]]:
        found = self.found(table, terms, order, final=final, limit=limit, guard=guard)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def found(
        self,
        table: RunTable,
        terms: Sequence[str],
        order: str,
        *,
        final: bool = False,
        limit: int | None = None,
        guard: QueryGuard | None = None,
    ) -> pa.Table:
        statement = select(table, terms, order, final=final, limit=limit)
        return self._engine.query_arrow(statement, guard=guard)


def select(
    table: RunTable, terms: Sequence[str], order: str, *, final: bool = False, limit: int | None = None
) -> str:
    statement = f"SELECT {table.columns} FROM {table.name}"
    if final:  # of rows that are told again, the last one counts
        statement += " FINAL"
    if terms:
        statement += f" WHERE {' AND '.join(terms)}"
    statement += f" ORDER BY {order}"
    if limit is not None:
        statement += f" LIMIT {limit}"
    return statement


def in_portion(portion: Portion) -> str:
    terms = [f"attempt = {portion.attempt}", f"step BETWEEN {portion.first_step} AND {portion.last_step}"]
    if portion.first_n is not None:
        terms.append(f"n >= {portion.first_n}")
    if portion.last_n is not None:
        terms.append(f"n <= {portion.last_n}")
    return f"({' AND '.join(terms)})"


def of_ranks(portions: Iterable[Portion]) -> list[str]:
    """Ranks that did the same steps in one term: a thousand terms would each be tried on every row."""
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    for portion in portions:
        if portion.rank is not None:
            ranks[in_portion(portion)].add(portion.rank)
    return [f"(rank IN ({', '.join(map(str, sorted(of)))}) AND {term})" for term, of in ranks.items()]


def among_tails(wanted: Iterable[Tail]) -> str:
    each = (
        f"({of_run(tail.run)} AND step >= {tail.first_step} AND rank = {tail.rank} "
        f"AND attempt = {tail.attempt})"
        for tail in wanted
    )
    return f"({' OR '.join(each)})"


def of_run(run: RunId) -> str:
    return f"run = {sql.text(run)}"


def equal(**wanted: int | str | None) -> list[str]:
    return [
        f"{column} = {sql.text(value) if isinstance(value, str) else value}"
        for column, value in wanted.items()
        if value is not None
    ]
