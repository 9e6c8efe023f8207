"""Reading rows back as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.series import stale_mask
from trilens.store import sql
from trilens.store.schema import DAY_MS, HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.series import Floats, Times
    from trilens.store.engine import Engine

BUCKET_MS: Final = 4 * HOUR_MS  # samples of so long a time lie together: see schema.py
_LIES_BY: Final = {"t": (BUCKET_MS, DAY_MS), "end_t": (DAY_MS, 31 * DAY_MS)}
"""By time column: how long a bucket of the table's order is, and one of its partitions at most."""


class SampleRows(NamedTuple):
    """Sorted by (ids, t), each pair once. The arrays may be read-only."""

    ids: NDArray[np.uint64]
    t: Times
    v: Floats


def read_samples(
    engine: Engine,
    metrics: Sequence[str] | None,
    ids: NDArray[np.uint64] | None,
    start_ms: int,
    end_ms: int,
    guard: QueryGuard | None = None,
) -> SampleRows:
    """All samples with start_ms < t <= end_ms, staleness markers included.

    Name the metrics whenever they are known: the table is ordered by them. `ids` None means every series of
    these metrics, and is faster than naming all. The caller counts what it keeps against the guard; a read
    far beyond what the guard has left fails in the engine, before it takes memory.

    Without ORDER BY, which would take as long as the rest of the read: parts lie in order already, and
    `arranged` puts their pieces together.
    """
    table = engine.query_arrow(
        f"SELECT series, t, v FROM samples WHERE {where(metrics, ids, 't', start_ms, end_ms)}",
        guard=guard,
        settings=row_limit(guard),
    )
    return arranged(SampleRows(*(table[name].to_numpy() for name in ("series", "t", "v"))))


def load_metadata(engine: Engine) -> list[tuple[str, str, str, str]]:
    """(metric, kind, help, unit) of every described metric."""
    table = engine.query_arrow("SELECT metric, kind, help, unit FROM metadata FINAL ORDER BY metric")
    columns = [table[name].to_pylist() for name in ("metric", "kind", "help", "unit")]
    return list(zip(*columns, strict=True))


def where(
    metrics: Sequence[str] | None,
    ids: NDArray[np.uint64] | None,
    time_column: str,
    start_ms: int,
    end_ms: int,
) -> str:
    terms = [f"{time_column} > {int(start_ms)}", f"{time_column} <= {int(end_ms)}"]
    bucket_ms, partition_ms = _LIES_BY[time_column]
    if 2 * (end_ms - start_ms) <= partition_ms:
        # The engine's index does not know that the bucket follows from the time: without this, five minutes
        # are looked for among all rows of the day. (Of a longer time, dividing costs more than it spares.)
        bucket = f"intDiv({time_column}, {bucket_ms})"
        terms += [
            f"{bucket} {op} intDiv({int(t)}, {bucket_ms})" for op, t in ((">=", start_ms), ("<=", end_ms))
        ]
    if metrics is not None:
        terms.append(f"metric IN {sql.text_list(metrics)}" if metrics else "0")
    if ids is not None:
        terms.append(f"series IN {sql.id_list(ids)}" if len(ids) else "0")
    return " AND ".join(terms)


def row_limit(guard: QueryGuard | None) -> dict[str, int | float]:
    return {"max_result_rows": max(1, guard.max_samples - guard.samples)} if guard is not None else {}


def group_starts(*keys: NDArray[np.generic]) -> NDArray[np.intp]:
    """Where a new group begins in columns sorted by `keys`."""
    changed = np.zeros(len(keys[0]), dtype=bool)
    changed[:1] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changed)


def runs_of(rows: SampleRows, ids: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the rows of each of these series begin, and how many there are."""
    begin = np.searchsorted(rows.ids, ids, side="left")
    return begin, np.searchsorted(rows.ids, ids, side="right") - begin


def arranged(rows: SampleRows) -> SampleRows:
    """Rows as the engine hands them out, put in order: pieces of parts, each in order of series and time."""
    ids, t, v = rows
    begins = np.ones(len(t), dtype=bool)
    np.less_equal(t[1:], t[:-1], out=begins[1:])
    begins[1:] |= ids[1:] != ids[:-1]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(t))[: len(starts)]  # none where nothing was found
    order = np.lexsort((t[starts], ids[starts]))
    starts, ends = starts[order], ends[order]
    meet = (ids[starts[1:]] == ids[starts[:-1]]) & (t[starts[1:]] <= t[ends[:-1] - 1])
    if meet.any():
        order = np.lexsort((t, ids))
        return once_each(SampleRows(ids[order], t[order], v[order]))
    if (starts[1:] > starts[:-1]).all():
        return rows
    at = stretches(starts, ends - starts)
    return SampleRows(ids[at], t[at], v[at])


def stretches(begin: NDArray[np.intp], counts: NDArray[np.intp]) -> NDArray[np.int64]:
    """So many places from each beginning on."""
    ends = np.cumsum(counts)
    return np.repeat(begin - (ends - counts), counts) + np.arange(counts.sum())


def once_each(rows: SampleRows) -> SampleRows:
    """Of several values at one time the largest stays, any number before NaN and NaN before a marker.

    Repeats are rare: a write that was tried again, or a backfill over what was there. The engine's own
    grid functions keep the largest too.
    """
    ids, t, v = rows
    starts = group_starts(ids, t)
    if len(starts) == len(ids):
        return rows
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ids))))
    nan = np.isnan(v)
    rank = np.where(stale_mask(v), 0, np.where(nan, 1, 2))
    order = np.lexsort((v.view(np.int64), np.where(nan, 0.0, v), rank, group))
    last = order[np.append(starts[1:], len(ids)) - 1]
    return SampleRows(ids[last], t[last], v[last])
