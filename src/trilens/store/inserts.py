"""Rows on their way into the tables, as Arrow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.model.errors import IntakeError
from trilens.model.labels import METRIC_NAME
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.labels import Codes, Labels
    from trilens.model.series import Floats, Times
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.index import Coded, WrittenOut

CHUNK_ROWS: Final = 1_000_000  # of one insert: the engine keeps that together as one part a day

SERIES_CHUNK_ROWS: Final = 32_768  # their labels are long: the engine takes 500 bytes a row, and keeps them


class SampleBatch(NamedTuple):
    """Samples in any order; `metric_codes[i]` is the place of sample i's metric in `metrics`."""

    series: NDArray[np.uint64]
    metrics: Sequence[str]
    metric_codes: Codes
    t: Times
    v: Floats


class SeriesRow(NamedTuple):
    series: int
    labels: Labels  # the metric as __name__
    first_seen: int
    last_seen: int


class MetricRow(NamedTuple):
    metric: str
    kind: str
    help_text: str
    unit: str


def merged(batches: Sequence[SampleBatch]) -> SampleBatch:
    """Many batches as one; those of one index share its list of metrics, and its numbers stay."""
    if len(batches) == 1:
        return batches[0]
    metrics = batches[0].metrics
    codes = [b.metric_codes for b in batches]
    if any(b.metrics is not metrics for b in batches):
        place = {name: i for i, name in enumerate(dict.fromkeys(m for b in batches for m in b.metrics))}
        codes = [np.array([place[m] for m in b.metrics], np.int32)[b.metric_codes] for b in batches]
        metrics = list(place)
    return SampleBatch(
        np.concatenate([b.series for b in batches]),
        metrics,
        np.concatenate(codes),
        np.concatenate([b.t for b in batches]),
        np.concatenate([b.v for b in batches]),
    )


def samples_table(batch: SampleBatch) -> pa.Table:
    """Rows by metric and series, as the table is ordered: the engine then has little or nothing to sort.

    Two sorts here take a quarter of the time that the engine's one over all key columns takes.
    """
    metrics = tuple(batch.metrics)  # others add to that list while this one sorts
    order = np.argsort(batch.series)
    order = order[np.argsort(_ranks(metrics)[batch.metric_codes[order]], kind="stable")]
    return pa.table(
        {
            "metric": pa.DictionaryArray.from_arrays(batch.metric_codes[order], _texts(metrics)),
            "series": batch.series[order],
            "t": batch.t[order],
            "v": batch.v[order],
        }
    )


def _ranks(names: Sequence[str]) -> NDArray[np.signedinteger[Any]]:
    """Each name's place in the engine's order, which is that of its bytes."""
    ranks = np.empty(len(names), dtype=np.int32)
    ranks[sorted(range(len(names)), key=lambda i: names[i].encode())] = np.arange(len(names))
    # Numbers of 16 bits are sorted in a time that is linear in their count.
    return ranks.astype(np.int16) if len(names) <= np.iinfo(np.int16).max else ranks


def series_table(rows: Sequence[SeriesRow]) -> pa.Table:
    pairs = [[(n, v) for n, v in row.labels if n != METRIC_NAME] for row in rows]
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(p) for p in pairs], out=offsets[1:])
    labels = pa.MapArray.from_arrays(
        pa.array(offsets), _texts([n for p in pairs for n, _ in p]), _texts([v for p in pairs for _, v in p])
    )
    return pa.table(
        {
            "series": pa.array([row.series for row in rows], pa.uint64()),
            "metric": _texts([dict(row.labels).get(METRIC_NAME, "") for row in rows]),
            "labels": labels,
            "first_seen": pa.array([row.first_seen for row in rows], pa.int64()),
            "last_seen": pa.array([row.last_seen for row in rows], pa.int64()),
        }
    )


def written_out_table(
    ids: NDArray[np.uint64], labels: WrittenOut, first_seen: Times, last_seen: Times
) -> pa.Table:
    """The same of series of the index, without an object for each of them."""
    offsets = np.zeros(len(ids) + 1, dtype=np.int32)
    np.cumsum(labels.label_counts, out=offsets[1:])
    return pa.table(
        {
            "series": ids[labels.rows],
            "metric": _repeated(labels.metrics),
            "labels": pa.MapArray.from_arrays(
                pa.array(offsets), _repeated(labels.names), _repeated(labels.values)
            ),
            "first_seen": first_seen[labels.rows],
            "last_seen": last_seen[labels.rows],
        }
    )


def _repeated(coded: Coded) -> pa.Array:
    return _texts(coded.texts).take(pa.array(coded.places))


def metadata_table(rows: Sequence[MetricRow]) -> pa.Table:
    return pa.table(
        {
            "metric": _texts([row.metric for row in rows]),
            "kind": _texts([row.kind for row in rows]),
            "help": _texts([row.help_text for row in rows]),
            "unit": _texts([row.unit for row in rows]),
            "version": pa.array([time.time_ns()] * len(rows), pa.int64()),
        }
    )


def insert_samples(engine: Engine, horizon: Horizon, rows: pa.Table) -> None:
    """Write samples, and mark the hours for which they come too late to be in the rollups."""
    t = rows["t"].to_numpy()
    with horizon.held() as until_ms:
        ends = hour_ends(t)
        late = ends[ends <= until_ms]
        mark_dirty(engine, late)
        horizon.mark_dirty(late.tolist())
        engine.insert_arrow("samples", rows)
        horizon.note_written(int(t.min()))


def hour_ends(t: Times) -> Times:
    """The distinct hours (end - 1 h, end] that hold these times, by their ends."""
    return np.unique(-(-t // HOUR_MS)) * HOUR_MS


def mark_dirty(engine: Engine, ends: Times) -> None:
    _set_hours(engine, ends, 1, np.full(len(ends), time.time_ns(), dtype=np.int64))


def mark_clean(engine: Engine, ends: Times, versions: NDArray[np.int64]) -> None:
    """For hours that were dirty as of these versions; one marked again since then stays dirty."""
    _set_hours(engine, ends, 0, versions + 1)


def _set_hours(engine: Engine, ends: Times, dirty: int, versions: NDArray[np.int64]) -> None:
    if len(ends):
        flags = np.full(len(ends), dirty, dtype=np.uint8)
        engine.insert_arrow("rollup_hours", pa.table({"end_t": ends, "dirty": flags, "version": versions}))


def _texts(values: Sequence[str]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError as e:
        raise IntakeError(f"a name or a value is not valid UTF-8: {e.object!r}") from e
