"""The series on disk, found by their labels and by when they had samples.

Of a series the `series` table has the labels and when they were written, `activity` from when to when it had
samples. Either may be behind: labels are written once, activity every few minutes. A series counts as active
in a time when one of the two says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.labels import METRIC_NAME
from trilens.store import sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from trilens.model.labels import Codes
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.model.series import Times
    from trilens.store.engine import Engine

# How blocks are put together: a row for each metric and set of label names.
_GROUPED: Final = (
    "SELECT metric, names, groupArray(id) AS ids, arrayFlatten(groupArray(texts)) AS label_values, "
    "groupArray(first) AS firsts, groupArray(last) AS lasts FROM ({rows}) "
    "GROUP BY metric, names ORDER BY metric, names"
)


class SeriesBlock(NamedTuple):
    """Stored series that have one metric and one set of label names.

    `texts[values[i, j]]` is series i's value of label `names[j]`.
    """

    ids: NDArray[np.uint64]
    metric: str
    names: tuple[str, ...]
    texts: list[str]
    values: Codes
    first_t: Times
    last_t: Times


class Archive:
    """Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def recent(self, after_ms: int) -> Iterator[SeriesBlock]:
        """The series with a sample after `after_ms`, as far as was saved."""
        seen = f"SELECT series FROM activity WHERE last_t > {int(after_ms)}"
        return self._blocks(f"last_seen > {int(after_ms)} OR series IN ({seen})")

    def with_ids(self, ids: NDArray[np.uint64]) -> Iterator[SeriesBlock]:
        return self._blocks(f"series IN {sql.id_list(ids)}" if len(ids) else "0")

    def matching(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[SeriesBlock]:
        """The series that match and were active in (start, end]; first_t and last_t say when.

        One more than the guard allows is read, and refused.
        """
        wanted = _matches(matchers)
        on_metric = [m for m in matchers if m.name == METRIC_NAME]
        # The metric, by which `series` is sorted, keeps the join small; other labels would be read twice.
        of_metric = f"series IN (SELECT series FROM series WHERE {_matches(on_metric)})" if on_metric else "1"
        rows = (
            "SELECT metric, mapKeys(labels) AS names, mapValues(labels) AS texts, s.series AS id, "
            "if(n > 0, least(s.first_seen, a.first), s.first_seen) AS first, "
            "if(n > 0, greatest(s.last_seen, a.last), s.last_seen) AS last "
            f"FROM (SELECT * FROM series FINAL WHERE {wanted}) AS s LEFT JOIN ("
            "SELECT series, min(first_t) AS first, max(last_t) AS last, count() AS n FROM activity "
            f"WHERE {_within('first_t', 'last_t', start_ms, end_ms)} "
            f"AND {of_metric} GROUP BY series"
            ") AS a ON s.series = a.series "
            f"WHERE n > 0 OR ({_within('first_seen', 'last_seen', start_ms, end_ms)}) "
            f"LIMIT {guard.max_series + 1}"
        )
        table = self._engine.query_arrow(_GROUPED.format(rows=rows), guard=guard)
        blocks = list(_blocks_of(table))
        guard.take_series(sum(len(block.ids) for block in blocks))
        return blocks

    def label_names(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]:
        names = f"arrayConcat(mapKeys(labels), if(metric = '', [], [{sql.text(METRIC_NAME)}]))"
        return self._distinct(f"arrayJoin({names})", matchers, start_ms, end_ms, guard)

    def label_values(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]:
        """The empty text among them, where a series has no such label."""
        return self._distinct(_label(name), matchers, start_ms, end_ms, guard)

    def metrics(self, guard: QueryGuard) -> list[str]:
        """Of all series, whenever they had samples: by these alone they are sorted, and quickly gone
        through."""
        found = self._engine.query_arrow("SELECT DISTINCT toString(metric) AS text FROM series", guard=guard)
        texts: list[str] = found["text"].to_pylist()
        return texts

    def _distinct(
        self, what: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]:
        found = self._engine.query_arrow(
            f"SELECT DISTINCT toString({what}) AS text FROM series WHERE {_matches(matchers)} AND "
            f"({_within('first_seen', 'last_seen', start_ms, end_ms)} OR series IN "
            f"(SELECT series FROM activity WHERE {_within('first_t', 'last_t', start_ms, end_ms)}))",
            guard=guard,
        )
        texts: list[str] = found["text"].to_pylist()
        return texts

    def delete_before(self, t_ms: int) -> int:
        """Delete the series that had no sample since; returns how many rows went."""
        active = f"SELECT series FROM activity WHERE last_t >= {int(t_ms)}"
        count = self._delete("series", f"last_seen < {int(t_ms)} AND series NOT IN ({active})")
        # Rows of before, even of series that live on: what they say is in the later rows too.
        self._delete("activity", f"last_t < {int(t_ms)}")
        return count

    def _delete(self, table: str, condition: str) -> int:
        found = self._engine.query_arrow(f"SELECT count() AS n FROM {table} WHERE {condition}")
        count = int(found["n"][0].as_py())
        if count:
            self._engine.command(f"DELETE FROM {table} WHERE {condition}")
        return count

    def oldest_sample(self) -> int | None:
        """The time of the oldest sample or rollup that is left in any table."""
        found = self._engine.query_arrow(
            "SELECT min(oldest) AS t, sum(n) AS rows FROM ("
            "SELECT min(t) AS oldest, count() AS n FROM samples "
            "UNION ALL SELECT min(end_t), count() FROM samples_5m "
            "UNION ALL SELECT min(end_t), count() FROM samples_1h) WHERE n > 0"
        )
        return int(found["t"][0].as_py()) if found["rows"][0].as_py() else None

    def _blocks(self, condition: str) -> Iterator[SeriesBlock]:
        rows = (
            "SELECT metric, mapKeys(labels) AS names, mapValues(labels) AS texts, series AS id, "
            f"first_seen AS first, last_seen AS last FROM series FINAL WHERE {condition}"
        )
        return _blocks_of(self._engine.query_arrow(_GROUPED.format(rows=rows)))


def _within(first: str, last: str, start_ms: int, end_ms: int) -> str:
    return f"{last} > {int(start_ms)} AND {first} <= {int(end_ms)}"


def _label(name: str) -> str:
    return "metric" if name == METRIC_NAME else f"labels[{sql.text(name)}]"


def _matches(matchers: Sequence[Matcher]) -> str:
    return " AND ".join(map(_condition, matchers)) or "1"


def _condition(matcher: Matcher) -> str:
    """A matcher in SQL. The engine's regular expressions are RE2's, as ours are; no such label is ''."""
    label = _label(matcher.name)
    if matcher.op in ("=", "!="):
        return f"{label} {matcher.op} {sql.text(matcher.value)}"
    found = f"match({label}, {sql.text(f'^(?s:{matcher.value})$')})"
    return found if matcher.op == "=~" else f"NOT {found}"


def _blocks_of(table: pa.Table) -> Iterator[SeriesBlock]:
    for batch in table.to_batches():
        for i in range(batch.num_rows):
            yield _block({name: batch.column(name)[i] for name in batch.schema.names})


def _block(row: dict[str, pa.Scalar]) -> SeriesBlock:
    names = tuple(row["names"].as_py())
    ids = row["ids"].values.to_numpy()
    coded = row["label_values"].values.dictionary_encode()
    return SeriesBlock(
        ids,
        row["metric"].as_py(),
        names,
        coded.dictionary.to_pylist(),
        coded.indices.to_numpy().reshape(len(ids), len(names)),
        row["firsts"].values.to_numpy(),
        row["lasts"].values.to_numpy(),
    )
