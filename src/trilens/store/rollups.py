"""Five-minute and one-hour rollups, made hour by hour once an hour is closed.

A job, not a materialized view: it reads what is on disk, so running it again gives the same rows, a crash
costs one hour's work, and late samples only mean that their hour is rolled again. Both widths come from one
read of the raw rows; a day of 1,008 series at 15 s (5.8 million samples) took 5 s on two cores.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.model.series import Floats, Times, stale_mask
from trilens.store import sql
from trilens.store.horizon import NOTHING_ROLLED, Horizon
from trilens.store.inserts import mark_clean
from trilens.store.progress import load_progress, save_progress
from trilens.store.rows import SampleRows, group_starts, once_each, row_limit, where
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine

log = logging.getLogger(__name__)

WIDTHS: Final = {"samples_5m": 300_000, "samples_1h": HOUR_MS}
SETTLE_MS: Final = 600_000  # how long after its end an hour is rolled: late scrapes and remote writes are in
_JOB: Final = "rollups"
_CHUNK_SAMPLES: Final = 4_000_000  # held in memory at once: about 100 MB


class Rollups(NamedTuple):
    """One row a series and window (end_t - width, end_t], sorted by (ids, end_t). See schema.py."""

    ids: NDArray[np.uint64]
    end_t: Times
    samples: NDArray[np.uint32]
    special: NDArray[np.uint32]
    min: Floats
    max: Floats
    sum: Floats
    first_t: Times
    first: Floats
    last_t: Times
    last: Floats
    resets: NDArray[np.uint32]
    reset_sum: Floats
    ended: NDArray[np.uint8]


def roll(ids: NDArray[np.uint64], t: Times, v: Floats, width_ms: int) -> Rollups:
    """Rollups of samples that are sorted by (ids, t); staleness markers only tell where a series ended."""
    end_t = -(-t // width_ms) * width_ms
    starts = group_starts(ids, end_t)
    lasts = np.append(starts[1:], len(t)) - 1
    live = ~stale_mask(v)
    index = np.arange(len(v))
    newest = np.maximum.accumulate(np.where(live, index, -1))  # the last sample up to here that is no marker
    first = np.minimum(np.minimum.reduceat(np.where(live, index, len(v)), starts), lasts)
    last = np.maximum(newest[lasts], starts)
    number = np.where(live, v, np.nan)
    before = np.append(-1, newest[:-1])
    opened = np.repeat(starts, lasts - starts + 1)
    falls = live & (before >= opened) & (number < number[before])
    with np.errstate(invalid="ignore"):  # infinities of both signs add up to NaN, as in Prometheus
        total = np.add.reduceat(np.where(live, v, 0.0), starts)
    return Rollups(
        ids=ids[starts],
        end_t=end_t[starts],
        samples=np.add.reduceat(live, starts, dtype=np.uint32),
        # A sum that overflows makes the window special too: what is computed from it would not be exact.
        special=np.maximum(
            np.add.reduceat(live & ~np.isfinite(v), starts, dtype=np.uint32), ~np.isfinite(total)
        ).astype(np.uint32),
        min=np.fmin.reduceat(number, starts),
        max=np.fmax.reduceat(number, starts),
        sum=total,
        first_t=t[first],
        first=number[first],
        last_t=t[last],
        last=number[last],
        resets=np.add.reduceat(falls, starts, dtype=np.uint32),
        reset_sum=np.add.reduceat(np.where(falls, number[before], 0.0), starts),
        ended=(~live[lasts]).astype(np.uint8),
    )


def read_rollups(
    engine: Engine,
    table: str,
    metrics: Sequence[str] | None,
    ids: NDArray[np.uint64] | None,
    start_ms: int,
    end_ms: int,
    guard: QueryGuard | None = None,
) -> Rollups:
    """Windows of `table` (a key of WIDTHS) with start_ms < end_t <= end_ms."""
    rows = read_columns(engine, table, Rollups._fields[2:], metrics, ids, start_ms, end_ms, guard)
    order = np.lexsort((rows["version"], rows["end_t"], rows["ids"]))
    starts = group_starts(rows["ids"][order], rows["end_t"][order])
    ends = np.append(starts[1:], len(order))[: len(starts)]  # none where nothing was found
    newest = order[ends - 1]
    return Rollups(*(rows[name][newest] for name in Rollups._fields))


def read_columns(
    engine: Engine,
    table: str,
    columns: Sequence[str],
    metrics: Sequence[str] | None,
    ids: NDArray[np.uint64] | None,
    start_ms: int,
    end_ms: int,
    guard: QueryGuard | None = None,
) -> dict[str, NDArray[Any]]:
    """`ids`, `end_t`, `version` and these columns, in no order; a window rolled again may stand twice."""
    found = engine.query_arrow(
        f"SELECT series AS ids, end_t, version, {', '.join(columns)} FROM {table} "
        f"WHERE {where(metrics, ids, 'end_t', start_ms, end_ms)}",
        guard=guard,
        settings=row_limit(guard),
    )
    return {name: found[name].to_numpy() for name in ("ids", "end_t", "version", *columns)}


class RollupJob:
    """Run by one process; `run` at most once at a time."""

    def __init__(self, engine: Engine, horizon: Horizon, *, settle_ms: int = SETTLE_MS) -> None:
        self._engine = engine
        self._horizon = horizon
        self._settle_ms = settle_ms

    @staticmethod
    def restore(engine: Engine) -> Horizon:
        """The horizon as the last run left it."""
        until_ms = load_progress(engine, _JOB)
        return Horizon(NOTHING_ROLLED if until_ms is None else until_ms, dirty_hours(engine)[0].tolist())

    def run(self, now_ms: int, raw_since_ms: int, stop: threading.Event | None = None) -> int:
        """Roll every closed hour not yet rolled, then every dirty one; returns how many.

        Hours that end before `raw_since_ms` are left as they are: their raw samples may have expired.
        """
        closed = (now_ms - self._settle_ms) // HOUR_MS * HOUR_MS
        rolled = 0
        for end_t in self._new_hours(closed, raw_since_ms):
            if stop is not None and stop.is_set():
                return rolled
            self._horizon.advance(end_t)
            self._roll_hour(end_t)
            save_progress(self._engine, _JOB, end_t)
            self._horizon.rolled(end_t)
            rolled += 1
        with self._horizon.held():  # whatever is marked as of here has all its samples on disk
            ends, versions = dirty_hours(self._engine)
        for end_t, version in zip(ends.tolist(), versions.tolist(), strict=True):
            if stop is not None and stop.is_set():
                return rolled
            if end_t > raw_since_ms:
                self._roll_hour(end_t)
                rolled += 1
            else:
                log.warning("late samples of an hour whose raw samples expire are not in its rollups")
            mark_clean(self._engine, np.array([end_t]), np.array([version]))
        if len(ends):
            with self._horizon.held():
                self._horizon.set_dirty(dirty_hours(self._engine)[0].tolist())
        return rolled

    def _new_hours(self, closed: int, raw_since_ms: int) -> Iterator[int]:
        begin = self._horizon.until_ms
        if begin == NOTHING_ROLLED:
            found = self._engine.query_arrow("SELECT min(t) AS t, count() AS n FROM samples")
            if not found["n"][0].as_py():
                return
            begin = (found["t"][0].as_py() - 1) // HOUR_MS * HOUR_MS
        begin = max(begin, raw_since_ms // HOUR_MS * HOUR_MS)
        yield from range(begin + HOUR_MS, closed + 1, HOUR_MS)

    def _roll_hour(self, end_t: int) -> None:
        version = time.time_ns()
        for piece in self._pieces(end_t):
            rows = self._engine.query_arrow(
                f"SELECT metric, series, t, v FROM samples WHERE {piece} ORDER BY series, t",
                settings={"output_format_arrow_low_cardinality_as_dictionary": 1, "max_threads": 1},
            )
            if rows.num_rows:
                self._insert_rollups(rows.unify_dictionaries().combine_chunks(), version)

    def _pieces(self, end_t: int) -> Iterator[str]:
        """Conditions that split the hour's samples into amounts that fit in memory."""
        hour = f"t > {end_t - HOUR_MS} AND t <= {end_t}"
        counts = self._engine.query_arrow(
            f"SELECT metric, count() AS n FROM samples WHERE {hour} GROUP BY metric ORDER BY metric"
        )
        small: list[str] = []
        held = 0
        for metric, n in zip(counts["metric"].to_pylist(), counts["n"].to_pylist(), strict=True):
            if n > _CHUNK_SAMPLES:
                parts = -(-n // _CHUNK_SAMPLES)
                for part in range(parts):
                    yield f"{hour} AND metric = {sql.text(metric)} AND series % {parts} = {part}"
                continue
            if held + n > _CHUNK_SAMPLES:
                yield f"{hour} AND metric IN {sql.text_list(small)}"
                small, held = [], 0
            small.append(metric)
            held += n
        if small:
            yield f"{hour} AND metric IN {sql.text_list(small)}"

    def _insert_rollups(self, rows: pa.Table, version: int) -> None:
        samples = once_each(SampleRows(*(rows[name].to_numpy() for name in ("series", "t", "v"))))
        first_rows = group_starts(rows["series"].to_numpy())
        known_ids = rows["series"].to_numpy()[first_rows]
        metric_of = rows["metric"].combine_chunks().take(pa.array(first_rows))
        for table, width_ms in WIDTHS.items():
            rollups = roll(samples.ids, samples.t, samples.v, width_ms)
            columns = {"metric": metric_of.take(pa.array(np.searchsorted(known_ids, rollups.ids)))}
            columns |= {"series": rollups.ids}
            columns |= {name: getattr(rollups, name) for name in Rollups._fields[1:]}
            columns |= {"version": np.full(len(rollups.ids), version, dtype=np.int64)}
            self._engine.insert_arrow(table, pa.table(columns))


def dirty_hours(engine: Engine) -> tuple[Times, NDArray[np.int64]]:
    """Hours to roll again, and the version of the mark that says so."""
    found = engine.query_arrow(
        "SELECT end_t, max(version) AS newest FROM rollup_hours GROUP BY end_t "
        "HAVING argMax(dirty, version) = 1 ORDER BY end_t"
    )
    return found["end_t"].to_numpy(), found["newest"].to_numpy()
